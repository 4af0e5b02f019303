"""PostgreSQL: the embedded server, or one that is there already."""
