"""Rules that find a cause in the messages."""
