"""Long-poll pull over HTTP, sans I/O: RocketMQ's suspend model with queues and dense offsets (semantics 3.11)."""
