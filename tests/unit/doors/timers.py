"""A clock that tests move by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class FakeTimers:
    """`call_later` without waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []

    def call_later(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """As the loop's."""
        due_s = self.now_s + delay
        handle = asyncio.TimerHandle(due_s, callback, (), asyncio.get_running_loop())
        heapq.heappush(self._due, (due_s, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        """Move on and run what is due."""
        until_s = self.now_s + seconds
        while self._due and self._due[0][0] <= until_s:
            self.now_s, _, handle = heapq.heappop(self._due)
            if not handle.cancelled():
                handle._run()
        self.now_s = until_s
