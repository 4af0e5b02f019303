"""Find, open, decode and export stored messages, without consuming them."""
