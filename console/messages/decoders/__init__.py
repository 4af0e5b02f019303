"""Decode the bytes of a payload."""
