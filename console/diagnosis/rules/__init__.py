"""The rules of the diagnosis, grouped by where the cause is."""
