"""What the broker looks after once a second: segments and the sign of life."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import psycopg

from broker.storage import ownership as store

if TYPE_CHECKING:
    from broker.service.services import Services

__all__ = ["Housekeeping"]

log = logging.getLogger(__name__)

_INTERVAL_S = 1.0


class Housekeeping:
    """One task; an error of one round is logged and the next round comes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="housekeeping")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            try:
                await self._services.segments.turn()
                async with self._services.pool.use() as connection:
                    await store.seen(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                log.info("housekeeping: the database is away (%s)", str(error).splitlines()[0])
            except psycopg.Error:
                log.exception("housekeeping")
