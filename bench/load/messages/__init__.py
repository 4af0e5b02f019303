"""Entries and frames to send, made before the run."""
