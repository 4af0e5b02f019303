"""Causes at the consumers: none, too few, or clients that do not receive or do not finish messages."""
