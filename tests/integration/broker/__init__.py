"""Tests of the broker with a real PostgreSQL server."""
