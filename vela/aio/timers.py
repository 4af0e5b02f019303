"""The clock and timers of the client, which tests replace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from vela.aio.own_loop import require_loop

__all__ = ["LoopTimers", "Timer", "Timers"]


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Safe to repeat, and after the call."""


class Timers(Protocol):
    """A clock and timers. Time is in milliseconds from an arbitrary start, and never goes back."""

    def now_ms(self) -> int:
        """Return the current time."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, on the event loop, after `delay_ms`."""


class LoopTimers:
    """The `Timers` of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        require_loop(self._loop)
        return self._loop.call_later(delay_ms / 1000, callback)
