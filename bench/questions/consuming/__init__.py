"""How fast messages come out."""
