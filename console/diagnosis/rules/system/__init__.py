"""Causes outside the subscription: processes, the database, the log."""
