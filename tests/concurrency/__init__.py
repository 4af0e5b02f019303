"""Tests of races and lost statements, with a real PostgreSQL server."""
