"""pytest fixtures for projects that publish and handle messages."""
