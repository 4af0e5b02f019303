"""What the machine can do without Vela, for the same bytes."""
