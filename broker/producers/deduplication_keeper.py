"""Load and store the deduplication state of topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from broker.core.position import Position
from broker.producers.deduplication import TopicDeduplication
from broker.storage.away import is_away
from broker.storage.log import deduplication as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.reader import TopicReader
    from broker.log.topic_log import TopicLog
    from broker.producers.deduplication import DeduplicationFlush
    from broker.producers.producer import Producer
    from broker.storage.connection import Connection
    from broker.storage.pool import ConnectionPool
    from broker.tasks import BackgroundTasks

__all__ = ["DeduplicatedTopic", "DeduplicationKeeper"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

UNKNOWN_TAIL_ENTRIES = 10_000  # Number of entries to read if no state is stored yet


class DeduplicatedTopic(Protocol):
    """The part of a topic that deduplication needs."""

    # None if deduplication is off and no repeated message is waiting for its answer.
    deduplication: TopicDeduplication | None

    @property
    def name(self) -> TopicName: ...
    @property
    def topic_id(self) -> int: ...
    @property
    def owner_epoch(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def log(self) -> TopicLog: ...
    @property
    def reader(self) -> TopicReader: ...
    @property
    def producers(self) -> Mapping[str, Producer]: ...
    async def write(
        self, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str
    ) -> T | None: ...


class DeduplicationKeeper:
    """Loads and stores deduplication states."""

    def __init__(self, pool: ConnectionPool, tasks: BackgroundTasks, clock: Clock, *, expiry_ms: int) -> None:
        self._pool = pool
        self._tasks = tasks
        self._clock = clock
        self._expiry_ms = expiry_ms
        # Ids of topics whose stored state is being deleted.
        self._forgetting: set[int] = set()

    async def load(self, topic: DeduplicatedTopic) -> TopicDeduplication:
        """Build the state of a topic from stored rows and newer log entries. Raises GapInLog."""
        through, rows = await repeat_until_done(
            self._pool, lambda c: store.load(c, topic.topic_id), what="loading deduplication"
        )
        ledgers = topic.log.ledgers
        if through is None:
            # The topic's last owner may have crashed before it stored any state, so replay the last log entries.
            last = ledgers.last_position()
            through = Position(last.ledger_id, max(-1, last.entry_id - UNKNOWN_TAIL_ENTRIES))
        deduplication = TopicDeduplication(through)
        deduplication.restore(rows)
        position = ledgers.next_after(through)
        while ledgers.contains(position):
            entries = await topic.reader.read_ahead(position)
            deduplication.replay(entries)
            position = ledgers.next_after(Position(entries[-1].ledger_id, entries[-1].entry_id))
        return deduplication

    async def flush(self, topics: Sequence[DeduplicatedTopic]) -> None:
        """Store the changes of these topics. Raises psycopg.Error while the database is unavailable."""
        try:
            await self._flush(topics)
        except Exception as error:
            if is_away(error):
                raise
            if len(topics) <= 1:
                logger.exception(
                    "storing the deduplication of %s failed", ", ".join(each.name.full for each in topics)
                )
                return
            half = len(topics) // 2
            await self.flush(topics[:half])
            await self.flush(topics[half:])

    async def _flush(self, topics: Sequence[DeduplicatedTopic]) -> None:
        taken: dict[int, tuple[DeduplicatedTopic, TopicDeduplication, DeduplicationFlush]] = {}
        stored: set[int] = set()
        try:
            for topic in topics:
                deduplication = topic.deduplication
                if deduplication is None or not topic.is_open or topic.topic_id in self._forgetting:
                    continue
                if deduplication.is_enabled:
                    changed = deduplication.take_dirty()
                    if changed is not None:
                        taken[topic.topic_id] = topic, deduplication, changed
            if not taken:
                return
            async with self._pool.use() as connection:
                stored = await store.flush(
                    connection,
                    epochs={topic_id: topic.owner_epoch for topic_id, (topic, _, _) in taken.items()},
                    topics=[
                        store.TopicFlush(
                            topic_id=topic_id, through=changed.through, rows=changed.rows, gone=changed.gone
                        )
                        for topic_id, (_, _, changed) in taken.items()
                    ],
                )
        finally:
            # The database stores nothing for a topic whose owner epoch has changed.
            for topic_id, (_, deduplication, changed) in taken.items():
                if topic_id in stored:
                    deduplication.stored_through = changed.through
                else:
                    deduplication.put_back(changed)

    def apply_policy(self, topic: DeduplicatedTopic) -> None:
        """Switch deduplication on or off as the topic's policy says.

        As in Pulsar, deduplication knows only the messages that are stored after it is switched on.
        """
        wanted, current = topic.policies.deduplication, topic.deduplication
        if current is not None and current.is_enabled and not wanted:
            current.switch_off()
            if topic.topic_id not in self._forgetting:
                self._forgetting.add(topic.topic_id)
                self._tasks.keep(asyncio.create_task(self.forget(topic)))
        elif wanted and (current is None or not current.is_enabled):
            topic.deduplication = TopicDeduplication(topic.log.ledgers.last_position())
            if current is not None:
                topic.deduplication.take_waiting(current)
            topic.deduplication.pushed(topic.log.unanswered())

    async def forget(self, topic: DeduplicatedTopic) -> None:
        """Delete the stored state of a topic."""
        self._forgetting.add(topic.topic_id)
        try:
            await topic.write(
                lambda connection, epoch: store.forget_topic(
                    connection, topic_id=topic.topic_id, owner_epoch=epoch
                ),
                what="forgetting deduplication",
            )
        finally:
            self._forgetting.discard(topic.topic_id)

    def tidy(self, topic: DeduplicatedTopic) -> None:
        """Forget producers that were last seen more than `expiry_ms` ago.

        If deduplication is off and no repeated message is waiting, drop the state instead.
        """
        deduplication = topic.deduplication
        if deduplication is None:
            return
        if deduplication.is_enabled:
            deduplication.expire(topic.producers, now_ms=self._clock.now_ms(), expiry_ms=self._expiry_ms)
        elif not deduplication.has_waiting_repeats:
            topic.deduplication = None
