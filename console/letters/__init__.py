"""Find the letters in a dead-letter topic, where they come from, and why they failed."""
