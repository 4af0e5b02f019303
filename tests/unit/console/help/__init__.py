"""The documentation as the console serves it."""
