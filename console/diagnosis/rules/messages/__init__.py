"""Rules about causes in the messages."""
