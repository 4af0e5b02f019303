"""Run a load in a process of its own, which gets only the CPU time that nobody else wants.

The clients of a real flood have machines of their own. Here, without this, the load would take half of the time of the
broker, PostgreSQL and the measuring process, and the figures would be those of two cores for three busy processes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection

__all__ = ["elsewhere"]

_PATIENCE_S = 30.0


@contextmanager
def elsewhere(load: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Enter `load`, which must be picklable, in another process, and leave it at the end.

    Raises RuntimeError if it fails to begin.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(load, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_PATIENCE_S):
            raise RuntimeError("the load did not begin in time")
        try:
            ours.recv()
        except EOFError:
            raise RuntimeError("the load failed to begin; its error is above") from None
        yield
    finally:
        ours.close()
        process.join(_PATIENCE_S)


def _serve(load: Callable[[], AbstractContextManager[None]], pipe: Connection) -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with load():
        pipe.send("running")
        pipe.poll(None)  # until the other end is closed
