"""Questions about how fast messages are consumed."""
