"""The places that store a ledger's entries: a file, or a segment (a pair of tables in PostgreSQL)."""
