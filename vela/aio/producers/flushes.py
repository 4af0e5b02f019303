"""Who waits until what was sent so far has its answer."""

from __future__ import annotations

import asyncio
from collections import deque

from vela.errors import VelaError

__all__ = ["Flushes", "finish"]


class _Flush:
    """One of them."""

    __slots__ = ("done", "error", "sends")

    def __init__(self, sends: int, done: asyncio.Future[None], error: VelaError | None) -> None:
        self.sends = sends
        self.done = done
        self.error = error  # the first among what it waits for


class Flushes:
    """In order: sends are answered in theirs, so only the first can be over."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[_Flush] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, sends: int, done: asyncio.Future[None], error: VelaError | None) -> None:
        """`done` is set once the first `sends` sends are answered; `error` has happened to one of them already."""
        self._waiting.append(_Flush(sends, done, error))

    def failed(self, error: VelaError) -> None:
        """The oldest send failed: everyone waits for it."""
        for flush in self._waiting:
            flush.error = flush.error or error

    def answered(self, sends: int) -> None:
        """So many sends have their answer, ever."""
        while self._waiting and self._waiting[0].sends <= sends:
            flush = self._waiting.popleft()
            finish(flush.done, flush.error)


def finish(done: asyncio.Future[None], error: VelaError | None) -> None:
    """Says that it is over, unless nobody waits any more."""
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
