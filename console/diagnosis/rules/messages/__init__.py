"""Causes in the messages: one that fails, one that is left, keys, delays."""
