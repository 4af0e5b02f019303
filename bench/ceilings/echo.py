"""The bare echo server as a process beside the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["echo_server"]


@contextmanager
def echo_server() -> Iterator[int]:
    """Start it; gives its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.ceilings.echo_server"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"},  # modules that it imports need some
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(10)
