"""The broker's duties of every second: segments, policies, and memory that is no longer needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
TOPICS_AT_ONCE = 64  # looked at before the event loop serves others: less than half a millisecond
INDEX_CHUNKS = 64  # kept of one topic; a full chunk takes 512 KiB and has the counts of 32,768 entries


class Housekeeping:
    """One task that runs each duty once a second. An error is logged, and the other duties go on."""

    def __init__(
        self,
        topics: Topics,
        deduplication: DeduplicationKeeper,
        clock: Clock,
        duties: Sequence[Callable[[], Awaitable[None]]],
        *,
        may_store: Callable[[], bool],
    ) -> None:
        """`duties` are other rooms' own; `may_store` is false while the broker lock is lost."""
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
            for duty in self._duties:
                try:
                    await duty()
                except Exception as error:  # the other duties and the next round go on
                    if is_away(error):
                        logger.info("housekeeping: the database is away (%s)", first_line(error))
                    else:
                        logger.exception("housekeeping")

    async def _forget_due_times(self) -> None:
        async for topic in self._each_topic():
            if topic.delayed.needs_pruning and self._may_store():
                await topic.delayed.prune()

    async def _tidy_memory(self) -> None:
        """Evict counts that nobody needs soon, and stop recording acks for undo windows that have closed."""
        now_ms = self._clock.now_ms()
        async for topic in self._each_topic():
            subscriptions = list(topic.subscriptions.values())
            needed = [each.cursor.mark_delete for each in subscriptions]
            if (cached := topic.log.oldest_cached()) is not None:
                needed.append(cached)  # delivered from memory: its acks must not wait for a read
            topic.log.index.evict(min(needed, default=LATEST), INDEX_CHUNKS)
            for each in subscriptions:
                if each.undo_until_ms and each.undo_until_ms <= now_ms:
                    each.undo_is_over()

    async def _each_topic(self) -> AsyncIterator[Topic]:
        """Yield every topic in memory, and let the event loop serve messages after every `TOPICS_AT_ONCE`."""
        for number, topic in enumerate(self._topics.all(), start=1):
            yield topic
            if not number % TOPICS_AT_ONCE:
                await asyncio.sleep(0)

    async def _deduplicate(self) -> None:
        topics = self._topics.all()
        for topic in topics:
            if topic.deduplication is not None:
                self._deduplication.tidy(topic)
        await self._deduplication.flush(topics)
