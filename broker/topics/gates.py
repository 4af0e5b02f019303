"""Doors of topics that are being unloaded or deleted: whoever asks for one meanwhile waits until that is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

__all__ = ["TopicGates"]


class TopicGates:
    """By the topic's full name. One act closes a topic's gate at a time."""

    def __init__(self) -> None:
        self._closed: dict[str, asyncio.Event] = {}

    async def passed(self, name: str) -> None:
        """Wait until the topic's gate is open; returns at once when nobody closed it."""
        while (opened := self._closed.get(name)) is not None:
            await opened.wait()

    @asynccontextmanager
    async def closed(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Nobody loads these topics (each named once) inside. All or nothing: two acts cannot wait for each other."""
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
