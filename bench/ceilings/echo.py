"""The bare echo server as a process beside the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.ceilings.serving import served

__all__ = ["echo_server"]


@contextmanager
def echo_server() -> Iterator[int]:
    """Start the server and yield its port."""
    settings = {"DJANGO_SETTINGS_MODULE": "config.settings"}  # modules that the server imports need them
    with served("bench.ceilings.echo_server", env=settings) as port:
        yield port
