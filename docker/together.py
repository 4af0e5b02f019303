"""Run several commands as one: a minimal supervisor for a role with more than one process.

It restarts nothing. When one command ends, it stops the others, and the container's restart policy starts them all
again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType

__all__ = ["run_together"]


def run_together(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> int:
    """Run the commands until SIGTERM or SIGINT stops them all (returns 0) or one of them ends by itself (1).

    As process 1 of a container it also reaps orphaned processes. It sets no limit to how long a stop may take: after
    stop_grace_period the container engine kills the processes that are left.
    """
    running: dict[int, subprocess.Popen[bytes]] = {}
    stop_asked = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stop_asked
        stop_asked = True
        _terminate(running)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for command in commands:
        child = subprocess.Popen(command, env=dict(environment))
        running[child.pid] = child
    if stop_asked:  # the signal came between two starts
        _terminate(running)
    while running:
        pid, status = os.wait()
        if pid in running:
            child = running.pop(pid)
            child.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it again
            _terminate(running)
    return 0 if stop_asked else 1


def _terminate(running: Mapping[int, subprocess.Popen[bytes]]) -> None:
    """Send SIGTERM by process id and not through Popen, which might reap a child that os.wait should report."""
    for pid in list(running):
        with contextlib.suppress(ProcessLookupError):  # the process has ended and is still in the list
            os.kill(pid, signal.SIGTERM)
