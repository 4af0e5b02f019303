"""Receives that wait for a message, served in the order in which they were called."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["PendingReceives"]


class _Waiter(Protocol):
    def done(self) -> bool: ...


W = TypeVar("W", bound=_Waiter)

_FEW: Final = 16


class PendingReceives(Generic[W]):
    """The waiting receives, first come, first served. A receive that is done (cancelled, timed out) is passed over."""

    __slots__ = ("_most", "_waiters")

    def __init__(self) -> None:
        self._waiters: deque[W] = deque()
        self._most = _FEW  # with this many waiters, the next `add` forgets those that are done

    def __bool__(self) -> bool:
        """Return whether receives wait. This includes receives that will be passed over."""
        return bool(self._waiters)

    def __len__(self) -> int:
        """Return the number of receives that still wait."""
        return sum(not waiter.done() for waiter in self._waiters)

    def add(self, waiter: W) -> None:
        """Add a receive at the end of the line.

        On a topic without messages nobody calls `next`, so this also forgets receives that are done. It looks at all of
        them only when their number has doubled.
        """
        if len(self._waiters) >= self._most:
            self._waiters = deque(each for each in self._waiters if not each.done())
            self._most = max(_FEW, 2 * len(self._waiters))
        self._waiters.append(waiter)

    def next(self) -> W | None:
        """Remove and return the first receive that still waits, or None."""
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def take_all(self) -> list[W]:
        """Remove and return all receives that still wait, in order."""
        waiting = [waiter for waiter in self._waiters if not waiter.done()]
        self._waiters.clear()
        return waiting
