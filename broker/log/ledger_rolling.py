"""A full ledger gives way to the next one. When a segment closes, those of many topics do so in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.core.ledgers.ledger import LedgerInfo
from broker.storage.topics import topics as store

if TYPE_CHECKING:
    from broker.process.ownership import Ownership
    from broker.storage.connection import Connection
    from broker.topics.topic import Topic

__all__ = ["roll_ledgers"]


async def roll_ledgers(
    ownership: Ownership, topics: Sequence[Topic], *, segment_id: int, now_ms: int
) -> set[Topic]:
    """Seal the open ledger of each topic and open its next one in `segment_id`.

    Returns the topics that have a new ledger; another broker has taken the others, which are closed. No append of
    these topics may be in flight or begin meanwhile. Raises psycopg.Error when the server refuses: then no topic has a
    new ledger. Not safe to cancel.
    """
    rolls = {topic: _roll_of(topic) for topic in topics}

    async def roll(connection: Connection, epochs: Mapping[Topic, int]) -> Mapping[Topic, int]:
        opened = await store.roll_ledgers(
            connection,
            [(rolls[topic], epoch) for topic, epoch in epochs.items()],
            segment_id=segment_id,
            now_ms=now_ms,
        )
        return {topic: opened[topic.topic_id] for topic in epochs if topic.topic_id in opened}

    ledger_ids = await ownership.write_all(topics, roll, what="opening ledgers")
    for topic, ledger_id in ledger_ids.items():
        sealed, ledgers = rolls[topic].sealing, topic.log.ledgers
        if sealed is not None:
            ledgers.seal(sealed.ledger_id)
        info = LedgerInfo(
            ledger_id=ledger_id,
            entries_before=ledgers.total_entries,
            messages_before=ledgers.total_messages,
            bytes_before=ledgers.total_bytes,
            opened_ms=now_ms,
        )
        topic.log.add_ledger(info, segment_id)
    return set(ledger_ids)


def _roll_of(topic: Topic) -> store.LedgerRoll:
    ledgers = topic.log.ledgers
    return store.LedgerRoll(
        topic_id=topic.topic_id,
        sealing=ledgers.open_ledger(),
        entries_before=ledgers.total_entries,
        messages_before=ledgers.total_messages,
        bytes_before=ledgers.total_bytes,
    )
