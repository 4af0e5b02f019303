"""The places of a ledger's entries: a segment in PostgreSQL, or a separate file for each ledger."""
