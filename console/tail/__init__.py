"""Follow the new messages of a topic without moving a cursor."""
