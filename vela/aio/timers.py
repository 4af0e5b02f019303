"""Time for those that wait for it: the event loop's, or a test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from vela.aio.own_loop import require_loop

__all__ = ["LoopTimers", "Timer", "Timers"]


class Timer(Protocol):
    """One call that is to be made."""

    def cancel(self) -> None:
        """It is not made. Safe to repeat, and too late without harm."""


class Timers(Protocol):
    """A clock and an alarm. Milliseconds, from any beginning, never backwards."""

    def now_ms(self) -> int:
        """The time."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call it once, on the event loop, not before so many milliseconds have passed."""


class LoopTimers:
    """The running event loop's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        """See `Timers`."""
        return int(self._loop.time() * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """See `Timers`."""
        require_loop(self._loop)
        return self._loop.call_later(delay_ms / 1000, callback)
