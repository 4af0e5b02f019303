"""Saved views. A view is a list with filters, stored under a name."""
