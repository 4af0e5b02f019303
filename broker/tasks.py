"""The tasks that run beside those who started them: kept until they are done, and ended when the broker stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from broker.core.errors import BrokerError

__all__ = ["BackgroundTasks"]

logger = logging.getLogger(__name__)
T = TypeVar("T")


class BackgroundTasks:
    """The event loop alone keeps only a weak reference to a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task that nobody awaits until it is done, and say at ERROR when it died."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that goes on to its end even when whoever asked for it, a client's connection, is gone."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # its caller is gone, so only the log can say what comes of it
                task.add_done_callback(self._done)
            raise

    async def stop(self) -> None:
        """End what is still under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, BrokerError):
            logger.info("task %s was refused: %s", task.get_name(), error)
        else:
            logger.error("task %s died", task.get_name(), exc_info=error)
