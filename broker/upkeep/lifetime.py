"""Trim and unload topics, expire messages, and drop segments.

A segment is a pair of tables with the entries of many topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError
from broker.log.sealing import seal_idle
from broker.log.segment_drops import SegmentDrops
from broker.storage.away import is_away
from broker.storage.log import lifetime as store
from broker.storage.pool import first_line
from broker.subscription.expiry import expire
from broker.upkeep.idle_topics import may_leave

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.conf import BrokerSettings
    from broker.log.epochs import Epochs
    from broker.log.segments import Segments
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics
    from broker.topics.trimming import Trimmer
    from broker.upkeep.offloads import Offloads

__all__ = ["Lifetime"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 1.0
_VISITS = 20  # Per second
_VISIT_AGAIN_MS = 3_600_000


class Lifetime:
    """Runs a task for topics and a task for segments. Start the tasks only while this process has the broker lock."""

    def __init__(
        self,
        topics: Topics,
        trimmer: Trimmer,
        *,
        pool: ConnectionPool,
        segments: Segments,
        epochs: Epochs,
        clock: Clock,
        settings: BrokerSettings,
        offloads: Offloads,
        may_store: Callable[[], bool],
    ) -> None:
        self._topics = topics
        self._trimmer = trimmer
        self._pool = pool
        self._segments = segments
        self._epochs = epochs
        self._clock = clock
        self._settings = settings
        self.offloads = offloads
        self._may_store = may_store
        self._segment_drops = SegmentDrops(pool, segments, epochs, self._open_log)
        self._waiting: list[Topic] = []
        self._due = 0.0
        self._visit_at_ms: dict[int, int] = {}  # Time of the next visit, by topic id
        self._next_visits_ms = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._woken = asyncio.Event()
        # True after a call of `wake` until all visits are done
        self._is_asked = False
        self.trimmed_bytes = 0
        self.pin: store.OldestPin | None = None

    @property
    def segment_drops(self) -> SegmentDrops:
        """The object that drops segments."""
        return self._segment_drops

    def start(self) -> None:
        """Start both tasks."""
        self._tasks = [
            asyncio.create_task(self._run_topics(), name="lifetime of topics"),
            asyncio.create_task(self._run_segments(), name="lifetime of segments"),
        ]

    async def stop(self) -> None:
        """Stop both tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self) -> None:
        """Begin a round through the topics, unless a round is running. Look at the segments now."""
        # A round that restarts too often never reaches its last topics.
        if not self._waiting:
            self._waiting = self._topics.all()
        self._next_visits_ms = 0
        self._is_asked = True
        self._woken.set()

    async def look_at_topics(self, *, share: float = 1.0) -> None:
        """Look at the next topics. `share` is a fraction of the topics in memory."""
        if not self._waiting:
            self._waiting = self._topics.all()
        self._due = min(self._due + share * len(self._topics.loaded), float(len(self._waiting)))
        part = int(self._due)
        self._due -= part
        chosen, self._waiting = self._waiting[:part], self._waiting[part:]
        for topic in chosen:
            await self._guarded(self.look_at(topic), topic.name.full)

    async def look_at(self, topic: Topic) -> None:
        """Seal a topic's idle ledger, expire and trim messages, and unload the topic if it is idle. Safe to repeat."""
        if not topic.is_open:
            return
        policies = topic.policies
        await seal_idle(self._epochs, topic.log, open_segment_id=self._segments.open_id)
        if policies.message_ttl_ms:
            for subscription in list(topic.subscriptions.values()):
                if subscription.is_durable and subscription.cursor.backlog_messages:
                    await expire(subscription, policies.message_ttl_ms)
        self.trimmed_bytes += await self._trimmer.trim(topic)
        now_ms = self._clock.now_ms()
        if may_leave(topic, now_ms=now_ms, idle_ms=self._settings.topic_idle_ms):
            topic.log.close()

    async def visit_absent(self) -> None:
        """Load and look at topics that are not in memory but may have something to seal, trim or expire."""
        now_ms, pause_ms = self._clock.now_ms(), 6 * self._settings.lifetime_check_ms
        # If the next visits are more than `pause_ms` away, the clock was set back.
        if now_ms < self._next_visits_ms <= now_ms + pause_ms:
            return
        latest_ms = now_ms + _VISIT_AGAIN_MS
        self._visit_at_ms = {key: at for key, at in self._visit_at_ms.items() if now_ms < at <= latest_ms}
        known = [topic.topic_id for topic in self._topics.all()] + list(self._visit_at_ms)
        async with self._pool.use() as connection:
            found = await store.topics_to_visit(connection, known=known, limit=_VISITS)
        for topic_id, name in found:
            self._visit_at_ms[topic_id] = now_ms + _VISIT_AGAIN_MS
            await self._guarded(self._visit(name), name)
        if len(found) < _VISITS:
            self._next_visits_ms = now_ms + pause_ms
            self._is_asked = False

    async def _open_log(self, name: str) -> TopicLog:
        return (await self._topics.open_named(name)).log

    async def _visit(self, name: str) -> None:
        await self.look_at(await self._topics.open_named(name))

    async def look_at_segments(self) -> None:
        """Attach the files of offloaded ledgers, drop segments, and update `pin`.

        `pin` is the subscription that keeps the oldest closed segment from being dropped, or None.
        """
        await self._guarded(self.offloads.turn(), "offloaded ledgers")
        while await self._segment_drops.turn():
            pass
        async with self._pool.use() as connection:
            self.pin = await store.oldest_pin(connection)

    async def _run_topics(self) -> None:
        share = _INTERVAL_S * 1000 / self._settings.lifetime_check_ms
        is_own_clock = self._settings.wheel_enabled
        while True:
            await asyncio.sleep(_INTERVAL_S)
            if self._may_store() and (is_own_clock or self._waiting or self._is_asked):
                await self._guarded(self.look_at_topics(share=min(1.0, share)), "topics")
                await self._guarded(self.visit_absent(), "topics out of memory")

    async def _run_segments(self) -> None:
        interval_s = self._settings.lifetime_check_ms / 1000
        while True:
            # In Python 3.11, `asyncio.wait_for` loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s if self._settings.wheel_enabled else None):
                    await self._woken.wait()
            self._woken.clear()
            if self._may_store():
                await self._guarded(self.look_at_segments(), "segments")

    async def _guarded(self, work: Coroutine[object, object, None], what: str) -> None:
        try:
            await work
        except BrokerError as error:
            logger.info("upkeep of %s was not done; the next round tries again: %s", what, error)
        except Exception as error:
            if is_away(error):
                logger.info(
                    "upkeep of %s: the database is unavailable; the next round tries again: %s",
                    what,
                    first_line(error),
                )
            else:
                logger.exception("upkeep of %s failed; the next round tries again", what)
