"""The words and numbers that the pages show."""
