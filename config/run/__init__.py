"""`make run`: the supervisor and the embedded PostgreSQL. Usable before Django's settings are."""
