"""Expire messages: find and ack messages that are too old."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.position import Position

if TYPE_CHECKING:
    from broker.core.ledgers.message_index import Range
    from broker.subscription.subscription import Subscription

__all__ = ["expire", "expire_target"]

logger = logging.getLogger(__name__)


async def expire_target(subscription: Subscription, before_ms: int) -> Position | None:
    """Return the position of the newest entry appended before `before_ms`, or None if nothing expires."""
    cursor, reader = subscription.cursor, subscription.reader
    ledgers = subscription.log.ledgers
    first = cursor.read_from()
    oldest = ledgers.get(first.ledger_id)
    if oldest is None or not ledgers.contains(first) or oldest.first_append_ms >= before_ms:
        return None
    if oldest.last_append_ms >= before_ms:
        append_ms = await reader.append_ms(first)
        if append_ms is None or append_ms >= before_ms:
            return None
    target = ledgers.previous_of(await reader.position_at_time(before_ms))
    return target if target > cursor.mark_delete and ledgers.contains(target) else None


async def expire(subscription: Subscription, older_than_ms: int) -> int:
    """Ack all messages older than `older_than_ms`, even pending and delayed messages.

    Return the number of messages acked. Safe to repeat.
    """
    before_ms = subscription.now_ms() - older_than_ms
    target = await expire_target(subscription, before_ms)
    if target is None or subscription.is_deleted:
        return 0
    expired: list[int] = []
    entries: list[Range] = []

    def ack() -> None:
        entries[:] = subscription.unacked_through(target)
        expired.append(subscription.cursor.ack_through(target).messages)

    async with subscription.moves.moving(closes_consumers=False):
        await subscription.moves.with_index(ack)
        subscription.expired(expired[-1], entries)
    if expired[-1]:
        logger.info(
            "%s, subscription %s: %s messages expired, up to %s",
            subscription.log.name,
            subscription.name,
            expired[-1],
            target,
        )
    return expired[-1]
