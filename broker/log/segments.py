"""Choose the segments for new ledgers and for copies of long-lived ledgers.

A segment is a pair of tables with the entries of many ledgers. Views show the entries of all segments.
"""

from __future__ import annotations

import asyncio
import logging

from broker.clock import Clock
from broker.conf import BrokerSettings
from broker.core.ledgers.segment_rules import closing_factor
from broker.storage.log import lifetime as lifetime_store
from broker.storage.pool import ConnectionPool, repeat_until_done
from broker.storage.topics import topics as store

__all__ = ["Segments"]

logger = logging.getLogger(__name__)

VIEW_LOCK_TIMEOUT_MS = 200
_EMPTY_BYTES = 32 * 1024  # Size of two empty tables with their indexes


class Segments:
    """Keeps one segment open for new ledgers.

    Every method may raise psycopg.Error.
    """

    def __init__(
        self, pool: ConnectionPool, settings: BrokerSettings, clock: Clock, *, read_role: str
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._read_role = read_role
        self._views_stale = True
        self._opened_ms = 0
        # Without this lock, `_views_stale` could be false although the views lack a new segment.
        self._changing = asyncio.Lock()
        self.open_id = 0

    async def start(self) -> None:
        """Find or create the open segment, close older segments, and re-create the views."""
        found = await repeat_until_done(self._pool, store.newest_segment, what="finding the open segment")
        if found is None:
            await self._open_next()
        else:
            self.open_id, self._opened_ms = found
        await repeat_until_done(
            self._pool,
            lambda c: store.close_older_segments(c, self.open_id, self._clock.now_ms()),
            what="closing older segments",
        )
        await self._refresh_views()

    async def turn(self) -> None:
        """Open the next segment if the open segment is full or old. Re-create the views if they are out of date."""
        async with self._changing:
            await self._turn()

    async def _turn(self) -> None:
        async with self._pool.use() as connection:
            size_bytes = await store.segment_size_bytes(connection, self.open_id)
        age_ms = self._clock.now_ms() - self._opened_ms
        fills = max(size_bytes / self._settings.segment_max_bytes, age_ms / self._settings.segment_max_age_ms)
        if fills >= 1 and size_bytes > _EMPTY_BYTES and 0 < await self._closing_factor() <= fills:
            closing = self.open_id
            await self._open_next()
            async with self._pool.use() as connection:
                await store.close_segment(connection, closing, self._clock.now_ms())
        if self._views_stale:
            await self._refresh_views()

    async def long_lived(self) -> int:
        """Return the id of the segment for copies. If no such segment has room, create one."""
        async with self._changing, self._pool.use() as connection:
            found = await lifetime_store.open_long_lived(connection)
            if found is not None and found[1] >= self._settings.segment_max_bytes:
                await store.close_segment(connection, found[0], self._clock.now_ms())
                found = None
            if found is not None:
                return found[0]
            self._views_stale = True
            segment_id = await lifetime_store.open_segment(connection, self._clock.now_ms(), long_lived=True)
        logger.info("opened segment %s for copies of long-lived ledgers", segment_id)
        return segment_id

    async def views_show_all(self) -> bool:
        """Make the views show all segments. Return False if a reader's transaction locks the views."""
        async with self._changing:
            if self._views_stale:
                await self._refresh_views()
            return not self._views_stale

    async def drop(self, segment_id: int) -> bool:
        """Drop a closed segment that has no ledgers. Return False if the segment cannot be dropped now."""
        async with self._changing, self._pool.use() as connection:
            return await lifetime_store.drop_segment(
                connection, segment_id, lock_timeout_ms=VIEW_LOCK_TIMEOUT_MS, read_role=self._read_role
            )

    async def _closing_factor(self) -> int:
        async with self._pool.use() as connection:
            return closing_factor(await lifetime_store.segment_count(connection))

    async def _open_next(self) -> None:
        now_ms = self._clock.now_ms()
        async with self._pool.use() as connection:
            self.open_id = await store.open_segment(connection, now_ms)
        self._opened_ms = now_ms
        self._views_stale = True
        logger.info("opened segment %s", self.open_id)

    async def _refresh_views(self) -> None:
        async with self._pool.use() as connection:
            done = await store.refresh_entry_views(
                connection, lock_timeout_ms=VIEW_LOCK_TIMEOUT_MS, read_role=self._read_role
            )
        self._views_stale = not done
