"""Find the messages that arrived since the last look at a topic. A look moves no cursor."""
