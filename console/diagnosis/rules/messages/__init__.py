"""Causes in the messages: failing or forgotten ones, keys, delays, dead letters, the oldest segment."""
