"""`make run`: the supervisor and the embedded PostgreSQL. It needs no Django settings to start."""
