"""Rules that find a backlog's cause in a setting or an operator's act."""
