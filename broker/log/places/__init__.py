"""The two places where a ledger's entries can be: a segment in PostgreSQL, or a file for this ledger alone."""
