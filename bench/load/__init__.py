"""Load generators that need little CPU time themselves."""
