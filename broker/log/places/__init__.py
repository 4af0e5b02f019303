"""The places that store a ledger's entries: a file, or a segment (a set of tables in PostgreSQL)."""
