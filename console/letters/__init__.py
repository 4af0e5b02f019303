"""Dead letters: the topics that take them, where they come from, and why they failed."""
