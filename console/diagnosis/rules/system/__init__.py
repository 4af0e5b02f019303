"""Rules that find a cause in Vela's processes, the database or the log."""
