"""Load the deduplication state of a topic into memory, and store its changes later."""

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

UNKNOWN_TAIL_ENTRIES = 10_000  # most entries to read if no state is stored yet


class DeduplicatedTopic(Protocol):
    """The part of a topic that its deduplication needs."""

    deduplication: TopicDeduplication | None  # None = off, and no repeat waits for an answer

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
    """Keeps the deduplication of all topics of this process. Forgets a producer not seen for `expiry_ms`."""

    def __init__(self, pool: ConnectionPool, tasks: BackgroundTasks, clock: Clock, *, expiry_ms: int) -> None:
        self._pool = pool
        self._tasks = tasks
        self._clock = clock
        self._expiry_ms = expiry_ms
        # Ids of topics whose old state is being deleted. Nothing is stored for them meanwhile.
        self._forgetting: set[int] = set()

    async def load(self, topic: DeduplicatedTopic) -> TopicDeduplication:
        """Build the state of a topic that was just taken over, from the stored rows and the newer entries.

        Raises GapInLog if one of these entries is missing, and other errors if a read fails.
        """
        through, rows = await repeat_until_done(
            self._pool, lambda c: store.load(c, topic.topic_id), what="loading deduplication"
        )
        ledgers = topic.log.ledgers
        if through is None:
            # The last owner may have died before its first flush: read the end of the newest ledger.
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
        """Store the changes of these topics in one statement. If it is refused, store them in ever smaller groups.

        Logs each topic whose own changes are refused. Changes that are not stored stay for the next flush. Raises
        psycopg.Error while the database is unavailable.
        """
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
            # Put back the changes that were not stored: all of them if the statement failed, or those of a topic whose
            # epoch this process has advanced meanwhile. The next round uses the new epoch.
            for topic_id, (_, deduplication, changed) in taken.items():
                if topic_id in stored:
                    deduplication.stored_through = changed.through
                else:
                    deduplication.put_back(changed)

    def apply_policy(self, topic: DeduplicatedTopic) -> None:
        """Switch deduplication on or off if the topic's policy `deduplication` has changed.

        When it is switched on, deduplication learns the sends in flight. As in Pulsar, it knows nothing that was stored
        before.
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
        """Delete the stored state, so that it is not loaded when deduplication is switched on again."""
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
        """Forget producers that have been gone long enough.

        After deduplication was switched off, drop its state once no repeat waits for an answer.
        """
        deduplication = topic.deduplication
        if deduplication is None:
            return
        if deduplication.is_enabled:
            deduplication.expire(topic.producers, now_ms=self._clock.now_ms(), expiry_ms=self._expiry_ms)
        elif not deduplication.has_waiting_repeats:
            topic.deduplication = None
