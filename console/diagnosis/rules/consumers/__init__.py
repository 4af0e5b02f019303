"""Causes at the consumers: none, too few, or clients that do not take or finish messages."""
