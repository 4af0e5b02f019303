"""Timers for which time passes only when a test says so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["ManualTimers"]


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """`vela.aio.timers.Timers` for tests."""

    def __init__(self, now_ms: int = 1_000_000_007) -> None:
        self._now_ms = now_ms
        self._waiting: list[tuple[int, int, _Timer]] = []
        self._numbers = itertools.count()

    @property
    def running(self) -> int:
        """The number of pending timers."""
        return sum(timer.callback is not None for _, _, timer in self._waiting)

    def now_ms(self) -> int:
        """Return the time that the test has set."""
        return self._now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> _Timer:
        """Call `callback` once, when the test has advanced the time by `delay_ms`."""
        timer = _Timer(callback)
        heappush(self._waiting, (self._now_ms + delay_ms, next(self._numbers), timer))
        return timer

    def call_later_in_loop(self, delay_s: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """Replace the event loop's `call_later`. The delay is in this clock's time."""
        handle = asyncio.TimerHandle(delay_s, callback, (), asyncio.get_running_loop())
        self.call_later(round(delay_s * 1000), lambda: None if handle.cancelled() else handle._run())
        return handle

    def advance(self, ms: int) -> None:
        """Let time pass. Each callback that becomes due is called at its time."""
        until_ms = self._now_ms + ms
        while self._waiting and self._waiting[0][0] <= until_ms:
            self._now_ms, _, timer = heappop(self._waiting)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self._now_ms = until_ms
