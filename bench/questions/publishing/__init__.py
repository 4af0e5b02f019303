"""How fast messages go in."""
