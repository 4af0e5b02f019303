"""Dead letters: the topics that store them, where they come from, and why they failed."""
