"""When entries were delivered, for dispatchers that send in order and do not record single entries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from broker.core.position import Position

__all__ = ["DeliveryTimes"]

_MOST: Final = 64  # runs


class DeliveryTimes:
    """Runs of entries, each delivered at one time, in order, until their messages are acked.

    At most 64 runs are remembered. When there are more, neighbouring runs are joined and get the later time of the two.
    The oldest run is joined each time, so its time can be long after its first entries were delivered.
    """

    __slots__ = ("_delivered_ms", "_last", "_messages")

    def __init__(self) -> None:
        self._last: list[Position] = []  # last position of each run
        self._delivered_ms: list[int] = []
        self._messages: list[int] = []  # unacked

    def __len__(self) -> int:
        return len(self._last)

    def add(self, last: Position, messages: int, now_ms: int) -> None:
        """Record the delivery of entries up to `last`, which is beyond all earlier ones."""
        if self._delivered_ms and self._delivered_ms[-1] == now_ms:
            self._last[-1] = last
            self._messages[-1] += messages
            return
        if len(self._last) == _MOST:
            self._last = self._last[1::2]
            self._delivered_ms = self._delivered_ms[1::2]
            self._messages = [
                sum(pair) for pair in zip(self._messages[::2], self._messages[1::2], strict=True)
            ]
        self._last.append(last)
        self._delivered_ms.append(now_ms)
        self._messages.append(messages)

    def acked(self, position: Position, messages: int) -> int:
        """Subtract acked messages of the entry at `position`.

        Return when the entry was delivered, in Unix ms; 0 = not known.
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
        """Subtract `messages`, the oldest first, up to the run of `position`.

        Return when the messages were delivered, as pairs of Unix ms and messages, without those of unknown time.
        """
        at = bisect_left(self._last, position)
        if at == len(self._last):  # beyond every run, so all are acked
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
        """Forget the runs up to `position`, because the cursor was moved past them."""
        self._forget_first(bisect_right(self._last, position))

    def clear(self) -> None:
        """Forget everything, because the entries are delivered again."""
        self._last, self._delivered_ms, self._messages = [], [], []

    def _forget_acked(self) -> None:
        """Forget the first runs that have no unacked message left."""
        unacked = (at for at, messages in enumerate(self._messages) if messages > 0)
        self._forget_first(next(unacked, len(self._messages)))

    def _forget_first(self, runs: int) -> None:
        del self._last[:runs], self._delivered_ms[:runs], self._messages[:runs]
