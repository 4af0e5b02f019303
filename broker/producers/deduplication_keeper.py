"""Brings deduplication state into memory with a topic, and stores it behind."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker.core.position import Position
from broker.producers.deduplication import TopicDeduplication
from broker.storage.log import deduplication as store
from broker.storage.pool import repeat_until_done
from broker.storage.supervised import AWAY

if TYPE_CHECKING:
    from broker.process.services import Services
    from broker.producers.deduplication import DeduplicationFlush
    from broker.topics.topic import Topic

__all__ = ["apply_deduplication_policy", "flush", "load", "tidy"]

log = logging.getLogger(__name__)

UNKNOWN_TAIL_ENTRIES = 10_000  # looked at when nothing is stored: deduplication was switched on just now


async def load(topic: Topic) -> TopicDeduplication:
    """The state of a topic just taken: what is stored, and what the log holds beyond it. Raises GapInLog."""
    through, rows = await repeat_until_done(
        topic.services.pool, lambda c: store.load(c, topic.topic_id), what="loading deduplication"
    )
    ledgers = topic.log.ledgers
    if through is None:
        # The last owner may have died before its first flush: what it stored by then lies in the newest ledger.
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


async def flush(services: Services, topics: list[Topic]) -> None:
    """Store what changed in these topics, in one statement; in several where the database refuses one.

    Raises what psycopg raises while the database is away. Nothing is lost then.
    """
    try:
        await _flush(services, topics)
    except AWAY:
        raise
    except Exception:
        if len(topics) <= 1:
            log.exception(
                "storing the deduplication of %s failed", ", ".join(each.name.full for each in topics)
            )
            return
        half = len(topics) // 2
        await flush(services, topics[:half])
        await flush(services, topics[half:])


async def _flush(services: Services, topics: list[Topic]) -> None:
    taken: dict[int, tuple[Topic, TopicDeduplication, DeduplicationFlush]] = {}
    stored: set[int] = set()
    try:
        for topic in topics:
            deduplication = topic.deduplication
            if deduplication is not None and deduplication.is_enabled and topic.is_open:
                changed = deduplication.take_dirty()
                if changed is not None:
                    taken[topic.topic_id] = topic, deduplication, changed
        if not taken:
            return
        async with services.pool.use() as connection:
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
        # Also of a topic whose epoch this process advanced meanwhile: the next round has the new one.
        for topic_id, (_, deduplication, changed) in taken.items():
            if topic_id not in stored:
                deduplication.put_back(changed)


def apply_deduplication_policy(topic: Topic) -> None:
    """The policy `deduplication` may have changed while the topic is in memory.

    Switched on, it begins with what is on its way, as upstream: what was stored before is not known.
    """
    wanted, current = topic.policies.deduplication, topic.deduplication
    if current is not None and current.is_enabled and not wanted:
        current.is_enabled = False
        topic.services.keep(asyncio.create_task(_forget(topic)))
    elif wanted and (current is None or not current.is_enabled):
        topic.deduplication = TopicDeduplication(topic.log.ledgers.last_position())
        if current is not None:
            topic.deduplication.take_held(current)
        in_flight = topic.log.in_flight
        topic.deduplication.pushed([*(in_flight.sends if in_flight else ()), *topic.log.queue])


def tidy(topic: Topic, expiry_ms: int) -> None:
    """Forget producers not seen for long, and all of it once it was switched off and owes nobody an answer."""
    deduplication = topic.deduplication
    if deduplication is None:
        return
    if deduplication.is_enabled:
        deduplication.expire(topic.producers, now_ms=topic.services.clock.now_ms(), expiry_ms=expiry_ms)
    elif not deduplication.holds_repeats:
        topic.deduplication = None


async def _forget(topic: Topic) -> None:
    """An old state must not come back when it is switched on again."""
    await topic.services.epochs.write(
        topic.log,
        lambda connection, epoch: store.forget_topic(connection, topic_id=topic.topic_id, owner_epoch=epoch),
        what="forgetting deduplication",
    )
