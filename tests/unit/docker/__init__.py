"""The image's entrypoint and compose.yaml, as far as they can be tested without starting a container."""
