"""Tie a child process to the supervisor: on Linux the kernel signals the child when the supervisor is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

__all__ = ["dies_with_parent"]

_PR_SET_PDEATHSIG = 1


def dies_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Return a `preexec_fn` after which the child gets this signal when the thread that started it ends.

    Call Popen in the main thread: the kernel watches the thread, not the process. Return None on systems other than
    Linux: there the children of a killed supervisor keep running, and the next start ends only PostgreSQL.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os._exit(1)

    return arrange
