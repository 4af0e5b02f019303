"""Limit a task to a rate."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["Pace"]

# A task that is behind catches up by at most this much, so that a pause of a minute is not followed by a burst.
_MOST_LATE_S: Final = 1.0


class Pace:
    """Computes waits so that at most `per_s` units are spent per second, counted from the first call."""

    def __init__(self, per_s: int) -> None:
        """`per_s` 0 means no limit."""
        self._per_s = per_s
        self._due_s: float | None = None  # when more may be spent

    def pause_s(self, amount: int) -> float:
        """Spend an amount, and return the seconds to wait before spending more."""
        if not self._per_s:
            return 0.0
        now_s = time.monotonic()
        from_s = now_s if self._due_s is None else max(self._due_s, now_s - _MOST_LATE_S)
        self._due_s = from_s + amount / self._per_s
        return max(0.0, self._due_s - now_s)
