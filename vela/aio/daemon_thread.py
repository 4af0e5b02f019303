"""Threads for the application's callbacks, so that a callback may call methods that wait."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

__all__ = ["DaemonThread", "ListenerThreads"]

logger = logging.getLogger(__name__)


class DaemonThread:
    """A thread that calls functions one after the other. It starts with the first function.

    It is a daemon, unlike threads of `concurrent.futures`, so a program can end even if a function never returns.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[], object]) -> None:
        """Queue a function. Errors are logged."""
        self._queue.put(function)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread after the queued functions. Wait at most `timeout_s`; on the thread itself, do not wait."""
        self._queue.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _serve(self) -> None:
        while (function := self._queue.get()) is not None:
            try:
                function()
            except BaseException:  # SystemExit too: the thread must go on
                logger.exception("a callback of the application failed")


class ListenerThreads:
    """The threads that all listeners of a client share. Each listener always runs on the same thread."""

    def __init__(self, count: int) -> None:
        self._threads = [DaemonThread(f"vela-listener-{number}") for number in range(count)]
        self._given = 0

    def next(self) -> DaemonThread:
        """Return the thread for one more listener."""
        thread = self._threads[self._given % len(self._threads)]
        self._given += 1
        return thread

    def stop(self) -> None:
        """End the threads after their queued functions, without waiting."""
        for thread in self._threads:
            thread.stop(0)
