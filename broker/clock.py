"""Where the broker's time comes from, so that tests can bring their own."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Wall time in milliseconds since the epoch."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step back when the machine's clock is set."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000
