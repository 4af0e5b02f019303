"""Delivery times for dispatchers that send in order and do not record every entry."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from broker.core.position import Position

__all__ = ["DeliveryTimes"]

_MOST: Final = 128
_PARTS: Final = 32


class DeliveryTimes:
    """Delivery times of runs of neighbouring entries.

    All entries of a run share the time of the run's last delivery.
    """

    __slots__ = ("_delivered_ms", "_first_ms", "_last", "_messages")

    def __init__(self) -> None:
        self._last: list[Position] = []  # Last position of each run
        self._first_ms: list[int] = []
        self._delivered_ms: list[int] = []
        self._messages: list[int] = []  # Unacked messages of each run

    def __len__(self) -> int:
        return len(self._last)

    def add(self, last: Position, messages: int, now_ms: int) -> None:
        """Record a delivery of entries. Positions must rise from call to call."""
        if self._delivered_ms and now_ms < self._delivered_ms[-1]:
            self._move_back(self._delivered_ms[-1] - now_ms)
        if self._delivered_ms and self._delivered_ms[-1] == now_ms:
            self._last[-1] = last
            self._messages[-1] += messages
            return
        if len(self._last) == _MOST:
            self._join()
        self._append(last, now_ms, now_ms, messages)

    def _move_back(self, back_ms: int) -> None:
        """Move all remembered times back, because the clock was set back."""
        self._first_ms = [each - back_ms for each in self._first_ms]
        self._delivered_ms = [each - back_ms for each in self._delivered_ms]

    def _join(self) -> None:
        runs = list(zip(self._last, self._first_ms, self._delivered_ms, self._messages, strict=True))
        span_ms = self._delivered_ms[-1] - self._delivered_ms[0]
        self.clear()
        for last, first_ms, delivered_ms, messages in runs:
            if self._last and (delivered_ms - self._first_ms[-1]) * _PARTS < span_ms:
                self._last[-1] = last
                self._delivered_ms[-1] = delivered_ms
                self._messages[-1] += messages
            else:
                self._append(last, first_ms, delivered_ms, messages)

    def _append(self, last: Position, first_ms: int, delivered_ms: int, messages: int) -> None:
        self._last.append(last)
        self._first_ms.append(first_ms)
        self._delivered_ms.append(delivered_ms)
        self._messages.append(messages)

    def acked(self, position: Position, messages: int) -> int:
        """Record acked messages of an entry.

        Returns the delivery time in Unix milliseconds, or 0 if the time is unknown.
        """
        at = bisect_left(self._last, position)
        if at == len(self._last):
            return 0
        delivered_ms = self._delivered_ms[at]
        self._messages[at] -= messages
        if self._messages[0] <= 0:
            self._forget_acked()
        return delivered_ms

    def acked_through(self, position: Position, messages: int) -> Sequence[tuple[int, int]]:
        """Subtract acked messages from the oldest runs, up to the run of `position`.

        Returns the delivery time in Unix milliseconds and the number of acked messages of each affected run.
        """
        at = bisect_left(self._last, position)
        if at == len(self._last):
            self.clear()
            return ()
        found = []
        for run in range(at + 1):
            taken = min(messages, self._messages[run])
            if taken > 0:
                found.append((self._delivered_ms[run], taken))
                self._messages[run] -= taken
                messages -= taken
        self._forget_acked()
        return found

    def forget_through(self, position: Position) -> None:
        """Forget the runs up to `position`."""
        self._forget_first(bisect_right(self._last, position))

    def clear(self) -> None:
        """Forget all runs."""
        self._last, self._first_ms, self._delivered_ms, self._messages = [], [], [], []

    def _forget_acked(self) -> None:
        unacked = (at for at, messages in enumerate(self._messages) if messages > 0)
        self._forget_first(next(unacked, len(self._messages)))

    def _forget_first(self, runs: int) -> None:
        del self._last[:runs], self._first_ms[:runs], self._delivered_ms[:runs], self._messages[:runs]
