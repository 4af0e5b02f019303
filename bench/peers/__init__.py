"""Other brokers under Vela's loads: bring one up, run the same work, compare (METHODOLOGY.md)."""
