"""Logging in: with name and password, and with the code of a second factor."""
