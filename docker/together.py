"""Run several commands as one: a minimal supervisor for a role with more than one process.

It restarts nothing. When one command ends the others are stopped, and the container's restart policy starts all anew.
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

    As process 1 of a container it also buries the orphans that the kernel hands it. How long a stop may take is the
    engine's business (stop_grace_period): it kills what is left.
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
    """Signal by process id and not through Popen, which might reap a child that os.wait should report."""
    for pid in list(running):
        with contextlib.suppress(ProcessLookupError):  # it has ended and is not removed from the list yet
            os.kill(pid, signal.SIGTERM)
