"""Threads on which an application's functions run, so that they may wait for the client."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

__all__ = ["DaemonThread", "ListenerThreads"]

logger = logging.getLogger(__name__)


class DaemonThread:
    """Calls functions one after the other. It is started with the first.

    A daemon, unlike those of `concurrent.futures`: a function that never returns does not keep the program from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[], object]) -> None:
        """Call it soon. What it raises is logged."""
        self._queue.put(function)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End after what was submitted, and wait for it so long; not when called on the thread itself."""
        self._queue.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _serve(self) -> None:
        while (function := self._queue.get()) is not None:
            try:
                function()
            except BaseException:  # SystemExit too: others are called on this thread
                logger.exception("a callback of the application failed")


class ListenerThreads:
    """The threads that all listeners of a client share: each listener is on one of them, always the same."""

    def __init__(self, count: int) -> None:
        self._threads = [DaemonThread(f"vela-listener-{number}") for number in range(count)]
        self._given = 0

    def next(self) -> DaemonThread:
        """The thread of another listener."""
        thread = self._threads[self._given % len(self._threads)]
        self._given += 1
        return thread

    def stop(self) -> None:
        """They end when their functions return. Does not wait for it."""
        for thread in self._threads:
            thread.stop(0)
