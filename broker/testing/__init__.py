"""pytest fixtures for projects that publish and handle messages: `pytest_plugins = ["broker.testing.fixtures"]`."""
