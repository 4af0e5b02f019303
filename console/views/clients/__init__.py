"""The pages about consumers, producers and tokens."""
