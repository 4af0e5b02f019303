"""Find out which messages are in a dead-letter topic, where they come from, and why they failed."""
