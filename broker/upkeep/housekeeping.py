"""Run the broker's duties once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from broker.core.position import LATEST
from broker.storage.away import is_away
from broker.storage.pool import first_line

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.producers.deduplication_keeper import DeduplicationKeeper
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["Housekeeping"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 1.0
# Visiting 10,000 topics each second would take 5% of a core.
_TOPICS_A_TURN = 1024
TOPICS_AT_ONCE = 64
# A full chunk of a topic's message index takes 512 KiB.
INDEX_CHUNKS = 64


class Housekeeping:
    """A task that runs each duty once a second."""

    def __init__(
        self,
        topics: Topics,
        deduplication: DeduplicationKeeper,
        clock: Clock,
        duties: Sequence[Callable[[], Awaitable[None]]],
        *,
        may_store: Callable[[], bool],
    ) -> None:
        self._topics = topics
        self._deduplication = deduplication
        self._clock = clock
        self._may_store = may_store
        self._duties = (
            self._tidy_memory,
            self._forget_due_times,
            self._deduplicate,
            *duties,
        )
        self._turns = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name="housekeeping")

    async def stop(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            self._turns += 1
            for duty in self._duties:
                try:
                    await duty()
                except Exception as error:
                    if is_away(error):
                        logger.info("housekeeping: the database is unavailable (%s)", first_line(error))
                    else:
                        logger.exception("housekeeping: a duty failed; the next turn tries again")

    async def _forget_due_times(self) -> None:
        async for topic in self._each_topic():
            if topic.delayed.needs_pruning and self._may_store():
                await topic.delayed.prune()

    async def _tidy_memory(self) -> None:
        now_ms = self._clock.now_ms()
        async for topic in self._each_topic():
            subscriptions = list(topic.subscriptions.values())
            needed = [each.cursor.mark_delete for each in subscriptions]
            if (cached := topic.log.oldest_cached()) is not None:
                # Keep the message index of cached entries, so that their acks need not wait for a read from PostgreSQL.
                needed.append(cached)
            topic.log.index.evict(min(needed, default=LATEST), INDEX_CHUNKS)
            for each in subscriptions:
                if each.undo_until_ms and each.undo_until_ms <= now_ms:
                    each.undo_is_over()

    async def _each_topic(self) -> AsyncIterator[Topic]:
        topics = self._topics.all()
        begin = self._turns % max(1, ceil(len(topics) / _TOPICS_A_TURN)) * _TOPICS_A_TURN
        for number, topic in enumerate(topics[begin : begin + _TOPICS_A_TURN], start=1):
            yield topic
            if not number % TOPICS_AT_ONCE:
                await asyncio.sleep(0)

    async def _deduplicate(self) -> None:
        topics = self._topics.all()
        for topic in topics:
            if topic.deduplication is not None:
                self._deduplication.tidy(topic)
        await self._deduplication.flush(topics)
