"""Tests of statements with a real PostgreSQL server."""
