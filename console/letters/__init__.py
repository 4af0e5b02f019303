"""Find out which letters are in a dead-letter topic, where they come from, and why they failed."""
