"""Causes around the subscription: processes, the database, the log itself."""
