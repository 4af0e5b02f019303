"""Load that consumes."""
