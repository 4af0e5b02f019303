"""Seal the open ledgers of many topics and open new ledgers, with one SQL statement.

A segment is a pair of PostgreSQL tables with the ledgers of many topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.core.ledgers.ledger import LedgerInfo
from broker.storage.topics import topics as store

if TYPE_CHECKING:
    from broker.log.epochs import Epochs
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection

__all__ = ["roll_ledgers"]


async def roll_ledgers(
    epochs: Epochs, logs: Sequence[TopicLog], *, segment_id: int, now_ms: int
) -> set[TopicLog]:
    """Seal the open ledger of each log, and open a new ledger in a segment. Not safe to cancel.

    No append to any of the logs may run at the same time. Returns the logs that got a new ledger, and closes the
    other logs. Raises psycopg.Error if PostgreSQL refuses the statement.
    """
    rolls = {log: _roll_of(log) for log in logs}

    async def roll(connection: Connection, owner_epochs: Mapping[TopicLog, int]) -> Mapping[TopicLog, int]:
        opened = await store.roll_ledgers(
            connection,
            [(rolls[log], epoch) for log, epoch in owner_epochs.items()],
            segment_id=segment_id,
            now_ms=now_ms,
        )
        return {log: opened[log.topic_id] for log in owner_epochs if log.topic_id in opened}

    ledger_ids = await epochs.write_all(logs, roll, what="opening ledgers")
    for log, ledger_id in ledger_ids.items():
        sealed, ledgers = rolls[log].sealing, log.ledgers
        if sealed is not None:
            ledgers.seal(sealed.ledger_id)
        info = LedgerInfo(
            ledger_id=ledger_id,
            entries_before=ledgers.total_entries,
            messages_before=ledgers.total_messages,
            bytes_before=ledgers.total_bytes,
            opened_ms=now_ms,
        )
        log.add_ledger(info, segment_id)
    return set(ledger_ids)


def _roll_of(log: TopicLog) -> store.LedgerRoll:
    ledgers = log.ledgers
    return store.LedgerRoll(
        topic_id=log.topic_id,
        sealing=ledgers.open_ledger(),
        entries_before=ledgers.total_entries,
        messages_before=ledgers.total_messages,
        bytes_before=ledgers.total_bytes,
    )
