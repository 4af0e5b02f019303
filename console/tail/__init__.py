"""Follow a topic: find the messages that have come since the last look. A look moves no cursor."""
