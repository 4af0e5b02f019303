"""Gates of topics that are being unloaded or deleted: requests for such a topic wait until its gate opens again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

__all__ = ["TopicGates"]


class TopicGates:
    """The gates, by the topic's full name. Only one unload or delete at a time closes a topic's gate."""

    def __init__(self) -> None:
        self._closed: dict[str, asyncio.Event] = {}

    async def passed(self, name: str) -> None:
        """Wait until the topic's gate is open. Return at once if nothing has closed it."""
        while (opened := self._closed.get(name)) is not None:
            await opened.wait()

    @asynccontextmanager
    async def closed(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Close the gates of these topics for the block, so that no client can load them.

        Waits until all of them are open, and closes all of them at once, so that two calls cannot deadlock. Each topic
        must be in `names` once.
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
