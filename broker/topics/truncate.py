"""Empty a topic: durable subscriptions skip the messages, and ledgers that nobody needs are trimmed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.retention import Retention

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.subscription.storing.flusher import Flusher
    from broker.subscription.subscription import Subscription
    from broker.topics.compaction.compactor import Compactor
    from broker.topics.topic import Topic
    from broker.topics.trimming import Trimmer

__all__ = ["Truncation", "Truncator"]

logger = logging.getLogger(__name__)

_NOTHING_KEPT = Retention(time_ms=0, size_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The effect of truncating one topic."""

    through: Position  # Last position that is skipped
    skipped_messages: int  # Unacked messages, summed over all durable subscriptions
    freed_bytes: int  # Upper limit, because an undo or a bookmark may keep ledgers


class Truncator:
    """Truncates any topic of this process."""

    def __init__(self, trimmer: Trimmer, compactor: Compactor, flusher: Flusher) -> None:
        self._trimmer = trimmer
        self._compactor = compactor
        self._flusher = flusher

    async def measure(self, topic: Topic, through: Position | None = None) -> Truncation:
        """Return the effect that `truncate` would have now."""
        ledgers = topic.log.ledgers
        through = ledgers.last_position() if through is None else through
        skipped = 0
        for subscription in _durable(topic):
            skipped += await _unacked_through(topic, subscription, through)
        freed = sum(
            info.size_bytes for info in ledgers.infos() if info.sealed and info.ledger_id <= through.ledger_id
        )
        return Truncation(through=through, skipped_messages=skipped, freed_bytes=freed)

    async def truncate(self, topic: Topic, through: Position) -> int:
        """Move every durable subscription past a position, and trim the ledgers that nobody needs. Safe to repeat.

        Returns the freed bytes. Consumers stay connected.
        """
        for subscription in _durable(topic):
            await self._pass_over(subscription, through)
        await self._flusher.flush_now()
        await self._compactor.empty(topic, through)
        freed = await self._trimmer.trim(topic, retention=_NOTHING_KEPT)
        logger.info("%s is truncated up to %s: %s bytes freed", topic.name, through, freed)
        return freed

    async def _pass_over(self, subscription: Subscription, through: Position) -> None:
        def move() -> None:
            subscription.cursor.move_mark_delete(through)

        async with subscription.moves.moving(closes_consumers=False):
            if subscription.is_deleted:
                return
            await subscription.moves.with_index(move)
            subscription.after_move()
            subscription.mark_dirty()


def _durable(topic: Topic) -> list[Subscription]:
    return [each for each in topic.subscriptions.values() if each.is_durable and not each.is_deleted]


async def _unacked_through(topic: Topic, subscription: Subscription, through: Position) -> int:
    found: list[int] = []

    def count() -> None:
        copy = Cursor(topic.log.ledgers, topic.log.index, subscription.cursor.snapshot())
        found.append(copy.move_mark_delete(through).messages)

    await subscription.moves.with_index(count)
    return found[-1]
