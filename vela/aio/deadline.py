"""A time limit for all steps of a call."""

from __future__ import annotations

import asyncio

__all__ = ["Deadline"]


class Deadline:
    """A point in time, `seconds` after its creation."""

    __slots__ = ("_at_s", "_loop")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at_s = self._loop.time() + seconds

    @property
    def left_s(self) -> float:
        """Return the seconds left; 0 = the deadline has passed."""
        return max(0.0, self._at_s - self._loop.time())
