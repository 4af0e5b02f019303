"""Compare other brokers with Vela: start each, give it the same work, print one table (METHODOLOGY.md)."""
