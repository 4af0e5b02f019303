"""Sources of time that tests can replace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "SystemClock", "Timer"]


class Clock(Protocol):
    """A source of wall time."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch. The time may step back."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Timer(Protocol):
    """A function like `loop.call_later`. The delay is in seconds."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle: ...
