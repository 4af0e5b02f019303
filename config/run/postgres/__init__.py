"""PostgreSQL: the embedded server, or the user's own."""
