"""Rules that find a backlog's cause in the consumers."""
