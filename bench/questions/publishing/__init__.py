"""Questions about how fast messages are published."""
