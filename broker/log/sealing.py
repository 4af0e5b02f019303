"""Seal the open ledgers of idle topics.

An open ledger would keep its segment (a pair of PostgreSQL tables) from being dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log import lifetime as store

if TYPE_CHECKING:
    from broker.core.ledgers.ledger import LedgerInfo
    from broker.log.epochs import Epochs
    from broker.log.topic_log import TopicLog

__all__ = ["seal", "seal_idle"]


async def seal_idle(epochs: Epochs, log: TopicLog, *, open_segment_id: int) -> bool:
    """Seal the open ledger if its segment is closed and no sends are queued or under way.

    Returns whether the ledger was sealed. An append may seal the same ledger at the same time, which does no harm.
    """
    ledger = log.ledgers.open_ledger()
    if ledger is None or log.segments[ledger.ledger_id] == open_segment_id:
        return False
    if log.queue or log.in_flight is not None or log.is_taken:
        return False
    return await seal(epochs, log, ledger)


async def seal(epochs: Epochs, log: TopicLog, ledger: LedgerInfo) -> bool:
    """Seal a ledger and store its totals. Return False if the log is closed. Safe to repeat."""
    done = await epochs.write(
        log,
        lambda connection, epoch: store.seal_ledger(
            connection, topic_id=log.topic_id, owner_epoch=epoch, ledger=ledger
        ),
        what="sealing a ledger",
    )
    if not done:
        return False
    log.ledgers.seal(ledger.ledger_id)
    if not ledger.entries:
        log.segments.pop(ledger.ledger_id, None)
    return True
