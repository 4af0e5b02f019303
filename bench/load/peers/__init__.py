"""Clients that do so little work that the figures are those of the broker."""
