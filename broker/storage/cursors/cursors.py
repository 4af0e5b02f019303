"""Subscriptions, their cursors and pending acks in PostgreSQL.

The topic's owner epoch guards every write to a subscription or cursor. Pending acks need no guard, because no broker
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.cursor.state import AckChunk, CursorFlush, CursorState
from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.cursors.chunk_codec import decode_ack_sets, encode_ack_sets
from broker.storage.deletes import delete_with_references
from broker.storage.queries import query

__all__ = [
    "DirtyCursor",
    "PendingRow",
    "SubscriptionRow",
    "create_subscription",
    "delete_subscription",
    "flush",
    "forget_pending",
    "replace_pending",
    "set_paused",
    "set_type",
    "subscriptions_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """A stored durable subscription."""

    subscription_id: int
    name: str
    type: str
    properties: Mapping[str, str]
    cursor: CursorState
    last_used_ms: int  # 0 means unknown
    paused: bool


class DirtyCursor(NamedTuple):
    """One cursor's part of a flush."""

    topic_id: int
    subscription_id: int
    flush: CursorFlush


class PendingRow(NamedTuple):
    """A row of vela_pending_ack without its first column, `delivery_id`."""

    owner_epoch: int
    topic_id: int
    subscription_id: int
    consumer_key: int
    consumer_name: str
    ledger_id: int
    first_entry: int
    last_entry: int
    messages: int
    delivered_ms: int
    redelivery_count: int
    deadline_ms: int | None


async def subscriptions_of(connection: Connection, topic_id: int) -> list[SubscriptionRow]:
    """Return the durable subscriptions of a topic with their cursors."""
    chunks: dict[int, list[AckChunk]] = {}
    cursor = await connection.execute(query("cursors", "chunks_of_topic"), (topic_id,))
    for cursor_id, ledger_id, chunk, bits, ack_sets in await cursor.fetchall():
        chunks.setdefault(cursor_id, []).append(
            AckChunk(
                ledger_id=ledger_id, chunk=chunk, bits=bytes(bits), ack_sets=decode_ack_sets(bytes(ack_sets))
            )
        )
    cursor = await connection.execute(query("cursors", "of_topic"), (topic_id,))
    return [
        SubscriptionRow(
            subscription_id=row[0],
            name=row[1],
            type=row[2],
            properties=row[3],
            cursor=CursorState(
                mark_delete=Position(row[4], row[5]),
                acked_messages=row[6],
                acked_entries=row[7],
                acked_bytes=row[8],
                version=row[9],
                chunks=tuple(chunks.get(row[0], ())),
            ),
            last_used_ms=row[10],
            paused=row[11],
        )
        for row in await cursor.fetchall()
    ]


async def create_subscription(
    connection: Connection,
    *,
    topic_id: int,
    owner_epoch: int,
    name: str,
    type_name: str,
    properties: Mapping[str, str],
    state: CursorState,
) -> int | None:
    """Store a subscription and return its id.

    Return 0 if the name is taken, or None if `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("cursors", "create"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "name": name,
            "type": type_name,
            "properties": json.dumps(dict(properties)),
            "mark_delete_ledger": state.mark_delete.ledger_id,
            "mark_delete_entry": state.mark_delete.entry_id,
            "acked_messages": state.acked_messages,
            "acked_entries": state.acked_entries,
            "acked_bytes": state.acked_bytes,
            "ledgers": [chunk.ledger_id for chunk in state.chunks],
            "chunks": [chunk.chunk for chunk in state.chunks],
            "bits": [chunk.bits for chunk in state.chunks],
            "ack_sets": [encode_ack_sets(chunk.ack_sets) for chunk in state.chunks],
        },
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def set_type(
    connection: Connection, *, topic_id: int, owner_epoch: int, subscription_id: int, type_name: str
) -> bool | None:
    """Store the type of a subscription. Return None if `owner_epoch` is out of date. Safe to repeat."""
    cursor = await connection.execute(
        query("cursors", "set_type"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "subscription_id": subscription_id,
            "type": type_name,
        },
    )
    return await cursor.fetchone() is not None or None


async def set_paused(
    connection: Connection, *, topic_id: int, owner_epoch: int, subscription_id: int, paused: bool
) -> bool:
    """Store whether a subscription is paused. Return False if `owner_epoch` is out of date. Safe to repeat."""
    cursor = await connection.execute(
        query("cursors", "set_paused"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "subscription_id": subscription_id,
            "paused": paused,
        },
    )
    return await cursor.fetchone() is not None


async def delete_subscription(
    connection: Connection, *, topic_id: int, subscription_id: int, owner_epoch: int
) -> bool:
    """Delete a subscription and its cursor. Return False if `owner_epoch` is out of date. Safe to repeat."""
    parameters = {"topic_id": topic_id, "subscription_id": subscription_id, "owner_epoch": owner_epoch}
    row = await delete_with_references(connection, query("cursors", "delete_subscription"), parameters)
    return row is not None


async def flush(
    connection: Connection, *, epochs: Mapping[int, int], dirty: Sequence[DirtyCursor]
) -> set[int]:
    """Store the cursors of topics whose owner epoch is up to date. Return the ids of these topics. Safe to repeat.

    `epochs` maps topic ids to owner epochs.
    """
    flushes = [(each, each.flush) for each in dirty]
    chunks = [(each, *column) for each, change in flushes for column in _chunk_columns(change)]
    dropped = [
        (each, *key)
        for each, change in flushes
        for key in change.dropped
        if key not in change.bitmaps and key not in change.ack_sets
    ]
    cursor = await connection.execute(
        query("cursors", "flush"),
        (
            list(epochs.keys()),
            list(epochs.values()),
            [each.topic_id for each in dirty],
            [each.subscription_id for each in dirty],
            [change.mark_delete.ledger_id for _, change in flushes],
            [change.mark_delete.entry_id for _, change in flushes],
            [change.acked_messages for _, change in flushes],
            [change.acked_entries for _, change in flushes],
            [change.acked_bytes for _, change in flushes],
            [change.version for _, change in flushes],
            [each.topic_id for each, _, _ in dropped],
            [each.subscription_id for each, _, _ in dropped],
            [ledger_id for _, ledger_id, _ in dropped],
            [chunk for _, _, chunk in dropped],
            [each.topic_id for each, _, _, _ in chunks],
            [each.subscription_id for each, _, _, _ in chunks],
            [key[0] for _, key, _, _ in chunks],
            [key[1] for _, key, _, _ in chunks],
            [bits for _, _, bits, _ in chunks],
            [sets for _, _, _, sets in chunks],
        ),
    )
    return {topic_id for (topic_id,) in await cursor.fetchall()}


def _chunk_columns(change: CursorFlush) -> Iterator[tuple[tuple[int, int], bytes | None, bytes | None]]:
    again = set(change.dropped)
    for key in change.bitmaps.keys() | change.ack_sets.keys():
        bits, sets = change.bitmaps.get(key), change.ack_sets.get(key)
        # If a chunk was dropped and added again, both columns of its stored row are out of date.
        if key in again:
            bits, sets = bits or b"", sets or {}
        # The `flush` query keeps the stored value if the new value is None or empty. A zero byte
        # therefore stands for an empty bitmap.
        yield (
            key,
            None if bits is None else bits or b"\0",
            None if sets is None else encode_ack_sets(sets),
        )


async def replace_pending(
    connection: Connection, *, consumer_keys: Sequence[int], rows: Sequence[PendingRow]
) -> None:
    """Replace the pending acks of these consumers with `rows`. Safe to repeat."""
    columns = (
        [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in PendingRow._fields]
    )
    await connection.execute(query("cursors", "replace_pending"), (list(consumer_keys), *columns))


async def forget_pending(connection: Connection) -> None:
    """Delete all pending acks."""
    await connection.execute(query("cursors", "forget_pending"))
