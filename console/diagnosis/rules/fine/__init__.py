"""Rules that apply if no cause was found."""
