"""Flush calls that wait until all earlier messages have their answers."""

from __future__ import annotations

import asyncio
from collections import deque

from vela.errors import VelaError

__all__ = ["Flushes", "finish"]


class _Flush:
    """A waiting flush."""

    __slots__ = ("done", "error", "sends")

    def __init__(self, sends: int, done: asyncio.Future[None], error: VelaError | None) -> None:
        self.sends = sends
        self.done = done
        self.error = error  # the first error among the sends it waits for


class Flushes:
    """The waiting flushes, in order. Sends are answered in order, so the first flush always ends first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[_Flush] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, sends: int, done: asyncio.Future[None], error: VelaError | None) -> None:
        """Add a flush that waits for the first `sends` sends. `error`: why an earlier message failed."""
        self._waiting.append(_Flush(sends, done, error))

    def failed(self, error: VelaError) -> None:
        """Record the error of the oldest send, which every flush waits for."""
        for flush in self._waiting:
            flush.error = flush.error or error

    def answered(self, sends: int) -> None:
        """End the flushes that wait for no more than the first `sends` sends."""
        while self._waiting and self._waiting[0].sends <= sends:
            flush = self._waiting.popleft()
            finish(flush.done, flush.error)


def finish(done: asyncio.Future[None], error: VelaError | None) -> None:
    """Set the result of a flush, unless it was cancelled."""
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
