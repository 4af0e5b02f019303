"""Very many of one thing: connections, topics, names."""
