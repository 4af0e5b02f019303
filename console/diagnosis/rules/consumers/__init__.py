"""Rules about causes at the consumers."""
