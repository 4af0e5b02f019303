"""Where the entries of a ledger are: in a segment of PostgreSQL, or in a file of its own."""
