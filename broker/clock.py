"""The source of the broker's time, which tests can replace."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Wall time in milliseconds since the epoch."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch. May step back when the machine's clock is set."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000
