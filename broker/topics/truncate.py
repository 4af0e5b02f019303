"""Emptying a topic: every subscription passes over what is stored, then all ledgers but the open one go."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.retention import Retention
from broker.topics.trimming import trim

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Truncation", "measure_truncate", "truncate"]

log = logging.getLogger(__name__)

_NOTHING_KEPT = Retention(time_ms=0, size_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What a truncate does to one topic."""

    through: Position  # the last entry it passes over
    skipped_messages: int  # not acked, over all subscriptions
    freed_bytes: int  # of whole ledgers that can go; what an undo window or a bookmark needs stays


async def measure_truncate(topic: Topic, through: Position | None = None) -> Truncation:
    """What `truncate` up to a position, by default the last one stored, would do now. Changes nothing."""
    ledgers = topic.log.ledgers
    through = ledgers.last_position() if through is None else through
    skipped = 0
    for subscription in _durable(topic):
        skipped += await _unacked_through(subscription, through)
    freed = sum(
        info.size_bytes for info in ledgers.infos() if info.sealed and info.ledger_id <= through.ledger_id
    )
    return Truncation(through=through, skipped_messages=skipped, freed_bytes=freed)


async def truncate(topic: Topic, through: Position) -> int:
    """Let every durable subscription pass over what is stored up to `through`, and free what then nobody needs.

    Returns the bytes freed. Consumers stay; what they hold of it can be acked, to no effect. Safe to repeat.
    """
    for subscription in _durable(topic):
        await _pass_over(subscription, through)
    await topic.services.flusher.flush_now()
    freed = await trim(topic, retention=_NOTHING_KEPT)
    log.info("%s is truncated up to %s: %s bytes freed", topic.name, through, freed)
    return freed


def _durable(topic: Topic) -> list[Subscription]:
    return [each for each in topic.subscriptions.values() if each.is_durable and not each.is_deleted]


async def _unacked_through(subscription: Subscription, through: Position) -> int:
    log_ = subscription.log
    found: list[int] = []

    def count() -> None:
        copy = Cursor(log_.ledgers, log_.index, subscription.cursor.snapshot())
        found.append(copy.move_mark_delete(through).messages)

    await subscription.moves.with_index(count)
    return found[-1]


async def _pass_over(subscription: Subscription, through: Position) -> None:
    def move() -> None:
        subscription.cursor.move_mark_delete(through)

    async with subscription.moves.moving(closes_consumers=False):
        if subscription.is_deleted:
            return
        await subscription.moves.with_index(move)
        subscription.after_move()
        subscription.mark_dirty()
