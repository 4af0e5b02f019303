"""Flush calls that wait until all earlier messages have their answers."""

from __future__ import annotations

import asyncio
from collections import deque

from vela.errors import VelaError

__all__ = ["Flush", "Flushes"]


class Flush:
    """A waiting flush."""

    __slots__ = ("done", "error", "sends")

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done
        self.error: VelaError | None = None  # the first error among the messages that the flush waits for
        self.sends: int | None = None  # sends before the flush; None = earlier messages wait in line

    def finish(self) -> None:
        """Set the result, unless the flush was cancelled."""
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.error)


class Flushes:
    """The waiting flushes, in order. Sends are answered in order, so the first flush always ends first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Flush] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin(self, done: asyncio.Future[None]) -> Flush:
        """Add a flush. Set its `sends` when all messages before it are sent."""
        flush = Flush(done)
        self._waiting.append(flush)
        return flush

    def failed(self, error: VelaError, *, was_sent: bool) -> None:
        """Record the error of the oldest send, or of a message that could not be sent.

        Every flush waits for the oldest send. Only flushes whose messages are not all sent wait for an unsent message.
        """
        for flush in self._waiting:
            if was_sent or flush.sends is None:
                flush.error = flush.error or error

    def answered(self, sends: int) -> None:
        """End the flushes that wait only for sends among the first `sends`, which are answered."""
        while self._waiting:
            wanted = self._waiting[0].sends
            if wanted is None or wanted > sends:
                return
            self._waiting.popleft().finish()
