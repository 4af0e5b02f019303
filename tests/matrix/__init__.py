"""Rows of docs/reference/behaviour.md and the tests that show them: `make matrix` prints them with their results."""
