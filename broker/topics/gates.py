"""Gates of topics that are being unloaded or deleted: requests for such a topic wait until that is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

__all__ = ["TopicGates"]


class TopicGates:
    """The gates, by the topic's full name. Only one act at a time closes a topic's gate."""

    def __init__(self) -> None:
        self._closed: dict[str, asyncio.Event] = {}

    async def passed(self, name: str) -> None:
        """Wait until the topic's gate is open; returns at once if nobody closed it."""
        while (opened := self._closed.get(name)) is not None:
            await opened.wait()

    @asynccontextmanager
    async def closed(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Let nobody load these topics during the block. Close all gates or none, so that two acts cannot deadlock.

        Name each topic once.
        """
        while (busy := next((name for name in names if name in self._closed), None)) is not None:
            await self.passed(busy)
        opened = asyncio.Event()
        self._closed.update(dict.fromkeys(names, opened))
        try:
            yield
        finally:
            for name in names:
                del self._closed[name]
            opened.set()
