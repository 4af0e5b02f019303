"""Run a load in a separate process, which normally gets only the CPU time that nobody else wants.

The clients of a real flood run on other machines. Here they would take CPU time from the broker, PostgreSQL and the
measuring process, and the figures would show how four busy processes share two cores.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection

__all__ = ["elsewhere"]

_PATIENCE_S = 120.0  # a busy machine takes a long time to start a process


@contextmanager
def elsewhere(load: Callable[[], AbstractContextManager[None]], *, is_idle: bool = True) -> Iterator[None]:
    """Enter `load`, which must be picklable, in another process, and leave it at the end.

    `is_idle` is False for a load that stands for a server, which competes for the cores like any other process.
    Raises RuntimeError if the load fails to begin.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(load, theirs, is_idle), daemon=True)
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


def _serve(load: Callable[[], AbstractContextManager[None]], pipe: Connection, is_idle: bool) -> None:
    if is_idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with load():
        pipe.send("running")
        pipe.poll(None)  # until the other end is closed
