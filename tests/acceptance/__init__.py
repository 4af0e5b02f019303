"""Tests on a really started Vela."""
