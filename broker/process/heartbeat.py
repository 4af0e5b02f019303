"""The broker's heartbeat: a time in the table `vela_broker`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker.storage import ownership as store
from broker.storage.log.sweep import SILENT_S
from broker.storage.pool import ConnectionPool
from broker.storage.supervised import for_ever

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
LATE_S: Final = 5.0


class Heartbeat:
    """Writes the time once a second on a separate connection, so that no bulk work delays the heartbeat."""

    def __init__(
        self, pool: ConnectionPool, *, may_store: Callable[[], bool], on_late: Callable[[], None]
    ) -> None:
        """`on_late` is called after the first heartbeat that follows a gap of `SILENT_S` seconds or more.

        During the gap, a Celery task may have deleted the rows of connected clients.
        """
        self._pool = pool
        self._may_store = may_store
        self._on_late = on_late
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start writing."""
        self._task = asyncio.create_task(for_ever(self._turn, what="the heartbeat"), name="heartbeat")

    async def stop(self) -> None:
        """Stop writing, and close the pool."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.close()

    async def _turn(self) -> None:
        await asyncio.sleep(INTERVAL_S)
        if not self._may_store():
            return
        async with self._pool.use() as connection:
            gap_s = await store.seen(connection)
        if gap_s >= LATE_S:
            logger.warning(
                "no heartbeat was stored for %.1f s; the console said that the broker is silent", gap_s
            )
        if gap_s >= SILENT_S:
            self._on_late()
