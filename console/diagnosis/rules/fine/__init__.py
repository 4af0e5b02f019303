"""Rules that apply if no cause is found."""
