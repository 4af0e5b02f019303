"""Which segment new ledgers go to, and when the next one is opened (design 4).

A new segment's table is made first and appended to at once; the views over all segments follow when no reader holds
them. Neither ever delays an append.
"""

from __future__ import annotations

import logging

from broker.conf import BrokerSettings
from broker.service.clock import Clock
from broker.service.connections import ConnectionPool, repeat_until_done
from broker.storage import topics as store

__all__ = ["Segments"]

log = logging.getLogger(__name__)

_VIEW_LOCK_TIMEOUT_MS = 200


class Segments:
    """The segment that is open now. `turn` is called by the housekeeping, once a second."""

    def __init__(
        self, pool: ConnectionPool, settings: BrokerSettings, clock: Clock, *, read_role: str
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._read_role = read_role
        self._views_stale = True
        self._opened_ms = 0
        self.open_id = 0

    async def start(self) -> None:
        """Find the open segment or make one."""
        found = await repeat_until_done(self._pool, store.newest_segment, what="finding the open segment")
        if found is None:
            await self._open_next()
        else:
            self.open_id, self._opened_ms = found
        await self._refresh_views()

    async def turn(self) -> None:
        """Open the next segment when this one is full or old; make the views again while they lag behind."""
        async with self._pool.use() as connection:
            size_bytes = await store.segment_size_bytes(connection, self.open_id)
        age_ms = self._clock.now_ms() - self._opened_ms
        if size_bytes >= self._settings.segment_max_bytes or (
            age_ms >= self._settings.segment_max_age_ms and size_bytes > 0
        ):
            closing = self.open_id
            await self._open_next()
            async with self._pool.use() as connection:
                await store.close_segment(connection, closing, self._clock.now_ms())
        if self._views_stale:
            await self._refresh_views()

    async def _open_next(self) -> None:
        now_ms = self._clock.now_ms()
        async with self._pool.use() as connection:
            self.open_id = await store.open_segment(connection, now_ms)
        self._opened_ms = now_ms
        self._views_stale = True
        log.info("opened segment %s", self.open_id)

    async def _refresh_views(self) -> None:
        async with self._pool.use() as connection:
            done = await store.refresh_entry_views(
                connection, lock_timeout_ms=_VIEW_LOCK_TIMEOUT_MS, read_role=self._read_role
            )
        self._views_stale = not done
