"""Run work in a limited number of tasks. Further work waits in a queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["BoundedTasks"]

_ROOM = 1000


class BoundedTasks:
    """Runs at most `limit` pieces of work at once. Each piece must handle its own errors."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` in a task, or queue `work` if the limit is reached."""
        self._waiting.append(work)
        if len(self._waiting) > _ROOM:
            self._room.clear()
        self._begin()

    async def has_room(self) -> None:
        """Wait while too many pieces of work are queued. Safe to cancel."""
        await self._room.wait()

    def drop_waiting(self) -> None:
        """Drop the pieces of work that have not begun."""
        self._waiting.clear()
        self._room.set()

    async def finish(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for the running work, then cancel the work that is still running."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)
        for task in self._running:
            task.cancel()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._limit:
            task = asyncio.get_running_loop().create_task(self._waiting.popleft()())
            self._running.add(task)
            task.add_done_callback(self._done)
        if len(self._waiting) <= _ROOM:
            self._room.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._begin()
