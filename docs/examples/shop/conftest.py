"""Load Vela's fixtures."""

pytest_plugins = ["broker.testing.fixtures"]
