"""Load that publishes."""
