"""Start a bare server in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["served"]


@contextmanager
def served(module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run `python -m module arguments`, which prints its port, until the block ends. Yield the port.

    `env` is added to this process's environment.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(10)
