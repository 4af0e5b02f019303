"""The places of a ledger's entries. A place is a file, or a segment (a set of tables in PostgreSQL)."""
