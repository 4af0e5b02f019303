"""The pages about a topic's messages."""
