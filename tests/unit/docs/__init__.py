"""The documentation says what the code does: pages compared with the code, by name."""
