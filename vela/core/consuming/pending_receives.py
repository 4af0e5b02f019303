"""Receives that wait for a message, served in the order in which they were called."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

__all__ = ["PendingReceives"]


class _Waiter(Protocol):
    def done(self) -> bool: ...


W = TypeVar("W", bound=_Waiter)


class PendingReceives(Generic[W]):
    """Waiters, first come first served. One that is done (cancelled, timed out) is passed over."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[W] = deque()

    def __bool__(self) -> bool:
        """False = surely none waits; those passed over may still count."""
        return bool(self._waiters)

    def __len__(self) -> int:
        """Those that still wait."""
        return sum(not waiter.done() for waiter in self._waiters)

    def add(self, waiter: W) -> None:
        """The last in line."""
        self._waiters.append(waiter)

    def next(self) -> W | None:
        """Takes out the first that still waits, None when there is none."""
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def take_all(self) -> list[W]:
        """Takes out all that still wait, in order."""
        waiting = [waiter for waiter in self._waiters if not waiter.done()]
        self._waiters.clear()
        return waiting
