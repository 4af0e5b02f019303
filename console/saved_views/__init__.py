"""Saved views: lists with filters, stored under a name."""
