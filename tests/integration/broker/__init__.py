"""Tests on a really started PostgreSQL."""
