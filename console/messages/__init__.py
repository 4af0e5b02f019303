"""Find, open, decode and export messages for an operator. Reading changes nothing."""
