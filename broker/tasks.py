"""Background tasks, which are cancelled when the broker stops."""

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
    """Keeps references to tasks, because the event loop has only weak references."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it ends. Log a BrokerError at INFO, and other errors at ERROR."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that continues even if the caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # The cancelled caller cannot see a failure, so log it
                task.add_done_callback(self._done)
            raise

    async def stop(self) -> None:
        """Cancel the tasks that still run, and wait for them."""
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
            logger.error("task %s failed", task.get_name(), exc_info=error)
