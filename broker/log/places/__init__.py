"""The places of a ledger's entries. A place is a segment in PostgreSQL or a file."""
