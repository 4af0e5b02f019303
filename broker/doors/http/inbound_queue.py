"""The queue between the server and the application of one WebSocket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["InboundQueue"]

MAX_EVENTS: Final = 256
MAX_BYTES: Final = 1024 * 1024
RESUME_EVENTS: Final = 64
RESUME_BYTES: Final = 256 * 1024


class InboundQueue:
    """A queue that pauses reading from the socket at a high limit, and resumes reading at a low limit."""

    __slots__ = ("_bytes", "_events", "_is_paused", "_on_empty", "_pause", "_resume", "_waiter")

    def __init__(
        self, *, pause: Callable[[], None], resume: Callable[[], None], on_empty: Callable[[], None]
    ) -> None:
        """If the queue is empty, `get` calls `on_empty` and then waits."""
        self._events: deque[tuple[Mapping[str, Any], int]] = deque()
        self._bytes = 0
        self._is_paused = False
        self._on_empty = on_empty
        self._pause = pause
        self._resume = resume
        self._waiter: asyncio.Future[None] | None = None

    def put_nowait(self, event: Mapping[str, Any], size_bytes: int = 0) -> None:
        """Add an event, even if the queue is over its limits."""
        self._events.append((event, size_bytes))
        self._bytes += size_bytes
        if not self._is_paused and (len(self._events) >= MAX_EVENTS or self._bytes >= MAX_BYTES):
            self._is_paused = True
            self._pause()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> Mapping[str, Any]:
        """Wait for the next event. Only one caller may wait. Safe to cancel."""
        while not self._events:
            self._on_empty()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event, size_bytes = self._events.popleft()
        self._bytes -= size_bytes
        if self._is_paused and len(self._events) <= RESUME_EVENTS and self._bytes <= RESUME_BYTES:
            self._is_paused = False
            self._resume()
        return event
