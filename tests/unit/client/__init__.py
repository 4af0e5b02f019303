"""Tests of the client's parts that need no connection."""
