"""Trim ledgers that nobody needs any more.

An undo window is the time in which a cursor move can be undone. A bookmark is a named position in a topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.ledgers.retention import Retention, TrimLimits, trimmable
from broker.core.position import Position
from broker.storage.log import lifetime as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.ledgers.ledger import LedgerInfo
    from broker.storage.connection import Connection
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Trimmable", "Trimmer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmable:
    """The amount of data that a retention policy would trim."""

    messages: int
    size_bytes: int


class Trimmer:
    """Trims any topic of this process."""

    def __init__(self, pool: ConnectionPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def trim(self, topic: Topic, *, retention: Retention | None = None) -> int:
        """Trim the ledgers that nobody needs, and return the freed bytes. Safe to repeat.

        Without `retention`, the topic's policies apply. Undo windows and bookmarks keep entries, unless the topic is
        larger than its backlog quota.

        Raises psycopg.Error and PersistenceFailed.
        """
        retention = retention or Retention(
            time_ms=topic.policies.retention_ms, size_bytes=topic.policies.retention_bytes
        )
        freed = 0
        count = self._count(topic, retention, TrimLimits(acked_entries=_acked_entries(topic)))
        if count:
            async with topic.subscriptions.creating:
                # Read the cursors before querying the undo windows and bookmarks. If a cursor moves during the query,
                # its old position still limits the trim.
                limits = TrimLimits(
                    acked_entries=_acked_entries(topic),
                    pinned_entries=await self._pinned_entries(topic),
                    pinned_bytes=topic.policies.backlog_quota_bytes,
                )
                freed = await self._forget(topic, retention, limits)
        if topic.log.trimmed_through:
            await _remove_rows(topic)
        return freed

    def trimmable(self, topic: Topic, retention: Retention) -> Trimmable:
        """Return how much data this retention would trim now. Ignores undo windows and bookmarks."""
        count = self._count(topic, retention, TrimLimits(acked_entries=_acked_entries(topic)))
        ledgers = topic.log.ledgers.infos()[:count]
        return Trimmable(
            messages=sum(info.messages for info in ledgers),
            size_bytes=sum(info.size_bytes for info in ledgers),
        )

    async def _forget(self, topic: Topic, retention: Retention, limits: TrimLimits) -> int:
        """Remove ledgers from memory.

        The cursors may have moved, so check them again. Do not await between this check and the removal.
        """
        while True:
            count = min(
                self._count(topic, retention, limits),
                self._count(topic, retention, TrimLimits(acked_entries=_acked_entries(topic))),
            )
            if not count or not topic.is_open:
                return 0
            last = topic.log.ledgers.infos()[count - 1]
            behind = [each for each in topic.subscriptions.values() if _is_behind(topic, each, last)]
            if not behind:
                dropped = topic.log.forget(count)
                return sum(info.size_bytes for info in dropped)
            for reader in behind:
                await _push_forward(reader, Position(last.ledger_id, last.entries - 1))

    def _count(self, topic: Topic, retention: Retention, limits: TrimLimits) -> int:
        ledgers = topic.log.ledgers
        oldest = next(iter(ledgers), None)
        if oldest is None or not oldest.sealed:
            return 0
        if limits.acked_entries is not None and oldest.entries_before + oldest.entries > limits.acked_entries:
            return 0
        return trimmable(ledgers.infos(), retention=retention, limits=limits, now_ms=self._clock.now_ms())

    async def _pinned_entries(self, topic: Topic) -> int | None:
        async def pins(connection: Connection) -> tuple[list[Position], list[Position]]:
            return (
                await store.undo_pins(connection, topic.topic_id),
                await store.bookmark_pins(connection, topic.topic_id),
            )

        undo, bookmarks = await repeat_until_done(
            self._pool, pins, what="asking what undo windows and bookmarks need"
        )
        ledgers = topic.log.ledgers
        needed = [ledgers.entries_through(position) for position in undo]
        needed += [ledgers.entries_through(Position(each.ledger_id, each.entry_id - 1)) for each in bookmarks]
        return min(needed, default=None)


def _acked_entries(topic: Topic) -> int | None:
    """Return the number of old entries that nobody needs, or None if nothing limits the trim.

    The entries after a cursor's stored mark-delete position are needed, because the cursor returns there after a crash.
    """
    needed = [
        min(each.cursor.mark_delete, each.stored_mark_delete)
        for each in topic.subscriptions.values()
        if each.is_durable
    ]
    if topic.compacted.trim_limit is not None:
        needed.append(topic.compacted.trim_limit)
    if topic.deduplication is not None and topic.deduplication.is_enabled:
        needed.append(topic.deduplication.stored_through)
    return min((topic.log.ledgers.entries_through(each) for each in needed), default=None)


def _is_behind(topic: Topic, subscription: Subscription, last: LedgerInfo) -> bool:
    passed = topic.log.ledgers.entries_through(subscription.cursor.mark_delete)
    return not subscription.is_durable and passed < last.entries_before + last.entries


async def _push_forward(reader: Subscription, through: Position) -> None:
    """Move a reader's cursor past `through`, because readers do not prevent trimming."""
    async with reader.moves.moving(closes_consumers=False):
        place = reader.place()
        await reader.moves.with_index(lambda: _move(reader, through))
        # A reader of the compacted topic continues at its old place, because compaction may have kept messages there.
        reader.begin_at(place)
        reader.after_move()


def _move(reader: Subscription, through: Position) -> None:
    reader.cursor.move_mark_delete(through)


async def _remove_rows(topic: Topic) -> None:
    through = topic.log.trimmed_through
    done = await topic.write(
        lambda connection, epoch: store.trim(
            connection, topic_id=topic.topic_id, owner_epoch=epoch, through=through
        ),
        what="trimming ledgers",
    )
    if done and topic.log.trimmed_through == through:
        topic.log.trimmed_through = 0
