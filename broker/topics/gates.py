"""Gates of topics that are being unloaded or deleted. Requests for a topic wait while its gate is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

__all__ = ["TopicGates"]


class TopicGates:
    """Opens and closes the gates."""

    def __init__(self) -> None:
        self._closed: dict[str, asyncio.Event] = {}

    async def passed(self, name: str) -> None:
        """Wait until the topic's gate is open."""
        while (opened := self._closed.get(name)) is not None:
            await opened.wait()

    @asynccontextmanager
    async def closed(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Keep the gates of these topics closed during the `with` block. `names` must not contain a name twice.

        Waits until all these gates are open, and then closes them together, so that two calls cannot deadlock.
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
