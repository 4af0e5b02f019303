"""How many bytes of messages a client may hold, over all its consumers (upstream's memoryLimitBytes)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MemoryLimit"]


class MemoryLimit:
    """A count of bytes with a mark. Above it consumers grant no more permits and producers wait or are refused.

    It is a limit on what is asked for, not a guard around memory: what was granted before still arrives, so the count
    may pass the mark by what is under way.
    """

    __slots__ = ("_limit_bytes", "_waiting", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes`: 0 = no limit. Raises ValueError when negative."""
        if limit_bytes < 0:
            raise ValueError(f"memory_limit_bytes must be 0 (no limit) or more, not {limit_bytes}")
        self._limit_bytes = limit_bytes
        self._waiting: list[Callable[[], None]] = []
        self.used_bytes = 0

    @property
    def limit_bytes(self) -> int:
        """The mark; 0 = none."""
        return self._limit_bytes

    @property
    def is_reached(self) -> bool:
        """Whether nothing more is to be asked for."""
        return 0 < self._limit_bytes <= self.used_bytes

    def add(self, size_bytes: int) -> None:
        """Bytes have come to be held."""
        self.used_bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Bytes are held no more; calls whoever waits once the count is below the mark."""
        self.used_bytes -= size_bytes
        if self._waiting and not self.is_reached:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_below(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, at the next removal that leaves the count below the mark. Ask while it is reached."""
        self._waiting.append(resume)
