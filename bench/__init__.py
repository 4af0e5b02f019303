"""Vela's benchmarks, measured beside the limits of the machine (METHODOLOGY.md)."""
