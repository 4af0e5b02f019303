"""Search a dead-letter topic: which letters wait, where they come from, and why they failed."""
