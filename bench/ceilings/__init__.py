"""Measure what the machine can do with the same bytes without Vela."""
