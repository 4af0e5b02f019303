"""Rules that find a backlog's cause in Vela's processes, the database or the log."""
