"""Run a load in a separate process, which normally gets only the CPU time that no other process wants.

The clients of a real flood run on other machines. Here they would take CPU time from the broker, PostgreSQL and the
measuring process, and the figures would show how four busy processes share two cores.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from typing import Final

from pipeline.priority import give_way

__all__ = ["elsewhere"]

_NICENESS: Final = 19  # as little CPU time as Linux lets a process have

_PATIENCE_S = 120.0  # a busy machine takes a long time to start a process


@contextmanager
def elsewhere(load: Callable[[], AbstractContextManager[None]], *, gives_way: bool = True) -> Iterator[None]:
    """Enter `load`, which must be picklable, in another process, and leave it at the end.

    `gives_way` is False for a load that stands for a server, which competes for the cores like any other process.
    Raises RuntimeError if the load fails to begin.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(load, theirs, gives_way), daemon=True)
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


def _serve(load: Callable[[], AbstractContextManager[None]], pipe: Connection, gives_way: bool) -> None:
    if gives_way:
        os.setsid()  # `give_way` lowers a session's priority only if this process leads it
        give_way(_NICENESS)
    with load():
        pipe.send("running")
        pipe.poll(None)  # until the other end is closed
