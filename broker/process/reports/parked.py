"""Store which long-poll pulls wait for messages. A queue is a partition, or a topic without partitions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.clock import Clock
from broker.pulls.parked import topic_of
from broker.storage.cursors import parked as store
from broker.storage.cursors.sessions import notify_pages
from broker.storage.pool import ConnectionPool
from broker.storage.supervised import for_ever

if TYPE_CHECKING:
    from broker.core.parked_pulls import QueueKey
    from broker.pulls.parked import ParkedPulls
    from broker.pulls.values import ParkedPull
    from broker.topics.topic import Topic

__all__ = ["ParkedReport"]

_INTERVAL_S: Final = 1.0
_QUEUES_AT_ONCE: Final = 500  # About 10 ms of work
_SHOWN: Final = 50


class ParkedReport:
    """Writes the rows of changed queues once a second."""

    def __init__(
        self,
        pool: ConnectionPool,
        clock: Clock,
        parked: ParkedPulls,
        topic_in_memory: Callable[[str], Topic | None],
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._parked = parked
        self._topic_in_memory = topic_in_memory
        self._stored: dict[QueueKey, int] = {}  # Topic ids of the stored rows
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Delete the rows of an earlier broker, then start reporting. Raises psycopg.Error."""
        async with self._pool.use() as connection:
            await store.forget_all(connection)
        self._task = asyncio.create_task(
            for_ever(self._turn, what="the report of pulls"), name="parked pulls"
        )

    async def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _turn(self) -> None:
        await asyncio.sleep(_INTERVAL_S)
        changed = self._parked.take_changed(_QUEUES_AT_ONCE)
        if not changed:
            return
        rows: dict[QueueKey, store.ParkedRow] = {}
        now_ms = self._clock.now_ms()
        for key, pulls in changed.items():
            topic = self._topic_in_memory(topic_of(key)) if pulls else None
            if topic is not None:
                rows[key] = _row(topic.topic_id, pulls, now_ms)
        gone = {key: topic_id for key in changed.keys() - rows.keys() if (topic_id := self._stored.get(key))}
        try:
            await self._write(list(rows.values()), list(gone.values()))
        except BaseException:
            self._parked.changed_again(changed)
            raise
        self._stored.update({key: row.topic_id for key, row in rows.items()})
        for key in gone:
            del self._stored[key]

    async def _write(self, rows: Sequence[store.ParkedRow], gone: Sequence[int]) -> None:
        keys = [f"topic:{topic_id}" for topic_id in (*(row.topic_id for row in rows), *gone)]
        if not keys:
            return
        async with self._pool.use() as connection:
            await store.upsert(connection, rows)
            await store.delete(connection, gone)
            await notify_pages(
                connection, [json.dumps(keys[at : at + 200]) for at in range(0, len(keys), 200)]
            )


def _row(topic_id: int, pulls: Sequence[ParkedPull], now_ms: int) -> store.ParkedRow:
    oldest = sorted(pulls, key=lambda pull: pull.parked_ms)[:_SHOWN]
    return store.ParkedRow(
        topic_id=topic_id,
        pulls=len(pulls),
        oldest=json.dumps(
            [
                {
                    "offset": pull.offset,
                    "parked_ms": pull.parked_ms,
                    "due_ms": pull.due_ms,
                    "is_filtered": pull.matches is not None,
                    "address": pull.address,
                }
                for pull in oldest
            ]
        ),
        updated_ms=now_ms,
    )
