"""Limit how fast a compaction reads, and report its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["Pace", "Report"]

_REPORT_S: Final = 1.0

Report = Callable[[int], Awaitable[None]]
"""A function that receives the progress of a run in percent."""


class Pace:
    """The pace of one compaction run."""

    def __init__(self, bytes_per_s: int, total_bytes: int, report: Report) -> None:
        self._bytes_per_s = bytes_per_s
        self._total_bytes = max(1, total_bytes)
        self._report = report
        self.read_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._began_s = self._reported_s = self._loop.time()

    async def read(self, piece: Sequence[StoredEntry]) -> None:
        """Count the bytes just read, wait as long as the rate requires, and report the progress."""
        self.read_bytes += sum(len(entry.data) for entry in piece)
        ahead_s = self.read_bytes / self._bytes_per_s - (self._loop.time() - self._began_s)
        await asyncio.sleep(max(0.0, ahead_s))
        if self._loop.time() - self._reported_s >= _REPORT_S:
            self._reported_s = self._loop.time()
            await self._report(min(100, 100 * self.read_bytes // self._total_bytes))
