"""The rules of the diagnosis, grouped by the kind of cause."""
