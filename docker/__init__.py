"""The parts that the image adds to Vela: the entrypoint, the health check, and tests of both in `docker.check`."""
