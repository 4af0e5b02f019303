"""Tests with a real PostgreSQL server."""
