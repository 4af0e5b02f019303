"""The stored state of message deduplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["ProducerRow", "TopicFlush", "flush", "forget_topic", "load"]


class ProducerRow(NamedTuple):
    """The state of one producer name on one topic."""

    producer_name: str
    sequence_id: int  # Highest sequence id of a complete message, or -1
    chunk_sequence_id: int  # Sequence id of the latest chunked message, or -1
    chunk_id: int  # Highest chunk id of the latest chunked message, or -1
    seen_ms: int  # When the producer was last active


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFlush:
    """One topic's changes up to a position in the log."""

    topic_id: int
    through: Position
    rows: Sequence[ProducerRow]
    gone: Sequence[str]  # Producers to delete


async def load(connection: Connection, topic_id: int) -> tuple[Position | None, list[ProducerRow]]:
    """Return the last log position that the topic's state includes, and the producers.

    If no state is stored, the position is None.
    """
    cursor = await connection.execute(query("deduplication", "position_of"), (topic_id,))
    row = await cursor.fetchone()
    if row is None:
        return None, []
    cursor = await connection.execute(query("deduplication", "producers_of"), (topic_id,))
    return Position(row[0], row[1]), [ProducerRow(*each) for each in await cursor.fetchall()]


async def flush(
    connection: Connection, *, epochs: Mapping[int, int], topics: Sequence[TopicFlush]
) -> set[int]:
    """Store the changes of topics whose owner epoch is up to date. Return the ids of these topics.

    `epochs` maps topic ids to owner epochs.
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
    """Delete a topic's state. Return None if `owner_epoch` is out of date. Safe to repeat."""
    cursor = await connection.execute(
        query("deduplication", "forget_topic"), {"topic_id": topic_id, "owner_epoch": owner_epoch}
    )
    return None if await cursor.fetchone() is None else True
