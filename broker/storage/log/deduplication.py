"""What deduplication keeps: producer names with their sequence ids, and how much of each log is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["ProducerRow", "TopicFlush", "flush", "forget_topic", "load"]


class ProducerRow(NamedTuple):
    """One producer name on one topic."""

    producer_name: str
    sequence_id: int  # of its last whole message, -1 = none
    chunk_sequence_id: int  # of the large message under way, -1 = none
    chunk_id: int  # of its last part
    seen_ms: int  # when something of it was stored last


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFlush:
    """One topic's changes, stored together with the position they hold for."""

    topic_id: int
    through: Position
    rows: Sequence[ProducerRow]
    gone: Sequence[str]


async def load(connection: Connection, topic_id: int) -> tuple[Position | None, list[ProducerRow]]:
    """The position stored (None = never any) and the producers known by then."""
    cursor = await connection.execute(query("deduplication", "position_of"), (topic_id,))
    row = await cursor.fetchone()
    if row is None:
        return None, []
    cursor = await connection.execute(query("deduplication", "producers_of"), (topic_id,))
    return Position(row[0], row[1]), [ProducerRow(*each) for each in await cursor.fetchall()]


async def flush(
    connection: Connection, *, epochs: Mapping[int, int], topics: Sequence[TopicFlush]
) -> set[int]:
    """Store these, all or nothing by topic; returns the topics that are not fenced.

    Every topic's rows and position are of one moment, so that a statement that arrives late only makes the next owner
    read more of the log.
    """
    rows = [(each.topic_id, *row) for each in topics for row in each.rows]
    gone = [(each.topic_id, name) for each in topics for name in each.gone]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    cursor = await connection.execute(
        query("deduplication", "flush"),
        (
            list(epochs.keys()),
            list(epochs.values()),
            [each.topic_id for each in topics],
            [each.through.ledger_id for each in topics],
            [each.through.entry_id for each in topics],
            *(list(column) for column in columns),
            [topic_id for topic_id, _ in gone],
            [name for _, name in gone],
        ),
    )
    return {topic_id for (topic_id,) in await cursor.fetchall()}


async def forget_topic(connection: Connection, *, topic_id: int, owner_epoch: int) -> bool | None:
    """Deduplication was switched off: it begins anew when it is switched on again. None = fenced. Repeatable."""
    cursor = await connection.execute(
        query("deduplication", "forget_topic"), {"topic_id": topic_id, "owner_epoch": owner_epoch}
    )
    return None if await cursor.fetchone() is None else True
