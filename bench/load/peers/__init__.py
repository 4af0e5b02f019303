"""Clients that do so little work that the figures show the broker's."""
