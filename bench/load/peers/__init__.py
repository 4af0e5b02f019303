"""Clients that do little themselves, so that the broker's work shows."""
