"""Write the points of the console's charts. The points of one 10-second interval are a bucket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import psycopg

from broker.clock import Clock
from broker.process.reports.buckets import Buckets
from broker.storage.away import is_away
from broker.storage.history.points import BUCKET_MS, PointRow, add_points, written_until_ms
from broker.storage.pool import ConnectionPool, first_line

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["History"]

logger = logging.getLogger(__name__)

_MOST_BEHIND_MS: Final = 60_000


class History:
    """Stores each bucket at most once. Calls of `write` and `finish` must not overlap."""

    def __init__(self, pool: ConnectionPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._buckets = Buckets()
        self._open_ms = 0  # Start of the earliest bucket that may still be written
        self._is_behind = False
        self._unstored: tuple[int, list[PointRow]] | None = None  # Start and rows of the bucket to store

    async def start(self) -> None:
        """Begin after the newest stored bucket. Raises psycopg.Error."""
        async with self._pool.use() as connection:
            written_ms = await written_until_ms(connection)
        self._open_ms = max(written_ms, _start_of_bucket(self._clock.now_ms()))

    def note(self, topics: AbstractSet[Topic], subscriptions: AbstractSet[Subscription]) -> None:
        """Let the next bucket include the activity of these topics and subscriptions."""
        self._buckets.note(topics, subscriptions)

    async def write(self) -> None:
        """Store the bucket that has ended, if any. Raises psycopg.Error while the database is unavailable."""
        try:
            await self._store()
            ended_ms = _start_of_bucket(self._clock.now_ms()) - BUCKET_MS
            if ended_ms >= self._open_ms:
                await self._close(ended_ms)
            elif ended_ms < self._open_ms - _MOST_BEHIND_MS:
                self._discard(ended_ms)
        except psycopg.errors.LockNotAvailable:
            logger.info("a roll-up is under way; the points of the charts are stored with the next report")

    def _discard(self, ended_ms: int) -> None:
        self._buckets.discard()
        if not self._is_behind:
            logger.warning(
                "the clock is %.0f s behind the last points of the charts, so none are stored until it has caught up",
                (self._open_ms - ended_ms) / 1000,
            )
        self._is_behind = True

    async def finish(self) -> None:
        """Store everything up to now. Raises psycopg.Error."""
        await self._store()
        await self._close(max(self._open_ms, _start_of_bucket(self._clock.now_ms())))

    async def _close(self, at_ms: int) -> None:
        self._open_ms = at_ms + BUCKET_MS
        self._is_behind = False
        rows: list[PointRow] = []
        self._unstored = (at_ms, rows)
        for some in self._buckets.slices():
            rows += some
            await asyncio.sleep(0)  # Let the broker serve clients
        await self._store()

    async def _store(self) -> None:
        if self._unstored is None:
            return
        at_ms, rows = self._unstored
        if rows:
            try:
                async with self._pool.use() as connection:
                    await add_points(connection, at_ms, rows)
            except psycopg.Error as error:
                if is_away(error) or isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout):
                    raise
                # Do not retry, because the database is likely to refuse the rows again.
                logger.error(
                    "the database refused %s points; charts have a gap of 10 s: %s",
                    len(rows),
                    first_line(error),
                )
        self._unstored = None


def _start_of_bucket(time_ms: int) -> int:
    return time_ms - time_ms % BUCKET_MS
