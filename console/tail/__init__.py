"""Following a topic: the messages that have come since the last look. Reading changes nothing."""
