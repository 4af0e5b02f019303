"""Make sure that a soak leaves nothing behind: SIGTERM runs its `finally` blocks, and its drivers end with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from config.environment import PROJECT_DIR
from config.run.children.lifeline import dies_with_parent
from tests.support.vela import descendants_of

__all__ = ["end_on_sigterm", "kill", "lives", "started_driver"]


def end_on_sigterm() -> None:
    """From now on, let SIGTERM raise SystemExit in the main thread. A second SIGTERM changes nothing."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def kill(pid: int) -> None:
    """Send SIGKILL to a process, which may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def started_driver(
    command: Sequence[str], environment: Mapping[str, str], output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a driver in a new session. At the end, kill the driver and all its descendants.

    If this process is killed, the driver is killed too, and the driver's Java ends with it.
    """
    with output.open("ab") as out:
        driver = subprocess.Popen(
            command,
            cwd=PROJECT_DIR,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
    try:
        yield driver
    finally:
        for pid in [*descendants_of(driver.pid), driver.pid]:
            kill(pid)
        driver.wait()
