"""The time that a call of several steps may take in all."""

from __future__ import annotations

import asyncio

__all__ = ["Deadline"]


class Deadline:
    """So many seconds from now on."""

    __slots__ = ("_at_s", "_loop")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at_s = self._loop.time() + seconds

    @property
    def left_s(self) -> float:
        """What is left of them; 0 = they are over."""
        return max(0.0, self._at_s - self._loop.time())
