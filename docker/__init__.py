"""What the image adds to Vela: the entrypoint, its health check, and (`docker.check`) the proof that they work."""
