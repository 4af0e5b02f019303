"""Sealing the open ledger of a topic that nobody publishes to, so that its segment can be dropped some day.

A busy topic seals its ledger with the append that opens the next one; an idle one would keep a closed segment for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log import lifetime as store

if TYPE_CHECKING:
    from broker.core.ledgers.ledger import LedgerInfo
    from broker.topics.topic import Topic

__all__ = ["seal", "seal_idle"]


async def seal_idle(topic: Topic) -> bool:
    """Seal the open ledger when its segment is closed and nothing is on its way into it; whether it did.

    The append that comes meanwhile opens the next ledger, and seals this one too: both may happen.
    """
    log = topic.log
    ledger = log.ledgers.open_ledger()
    if ledger is None or log.segments[ledger.ledger_id] == topic.services.segments.open_id:
        return False
    if log.queue or log.in_flight is not None or topic.is_taken:
        return False
    return await seal(topic, ledger)


async def seal(topic: Topic, ledger: LedgerInfo) -> bool:
    """Seal a ledger with its totals; False when the topic is fenced, and closed. Safe to repeat."""
    done = await topic.services.ownership.write(
        topic,
        lambda connection, epoch: store.seal_ledger(
            connection, topic_id=topic.topic_id, owner_epoch=epoch, ledger=ledger
        ),
        what="sealing a ledger",
    )
    if not done:
        return False
    topic.log.ledgers.seal(ledger.ledger_id)
    if not ledger.entries:
        topic.log.segments.pop(ledger.ledger_id, None)
    return True
