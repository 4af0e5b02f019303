"""Tests of the service over rows in memory, which need neither a server nor a lost connection."""
