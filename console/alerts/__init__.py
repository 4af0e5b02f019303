"""Alert rules in the console."""
