"""Remove old log data from PostgreSQL: seal and trim ledgers, drop segments, and move ledgers out of old segments.

A segment is a pair of tables with the entries of many ledgers. A sealed ledger gets no more entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from broker.core.ledgers.ledger import LedgerInfo
from broker.core.ledgers.segment_rules import SegmentUse
from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import entry_table, query, rest_table

__all__ = [
    "LedgerToMove",
    "OldestPin",
    "bookmark_pins",
    "copied_entries",
    "copy_piece",
    "drop_segment",
    "ledgers_in",
    "move_ledger",
    "oldest_pin",
    "open_long_lived",
    "open_segment",
    "seal_ledger",
    "segment_count",
    "segment_uses",
    "topics_to_visit",
    "trim",
    "undo_pins",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerToMove:
    """A sealed ledger that is still in an old segment."""

    ledger_id: int
    topic_id: int
    topic_name: str
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestPin:
    """A subscription that keeps a segment from being dropped."""

    topic_name: str
    subscription: str
    segment_id: int
    opened_ms: int


async def seal_ledger(
    connection: Connection, *, topic_id: int, owner_epoch: int, ledger: LedgerInfo
) -> bool | None:
    """Seal a topic's open ledger. Return None if `owner_epoch` is out of date. Safe to repeat."""
    cursor = await connection.execute(
        query("lifetime", "seal_ledger"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "ledger_id": ledger.ledger_id,
            "entries": ledger.entries,
            "messages": ledger.messages,
            "size_bytes": ledger.size_bytes,
            "first_append_ms": ledger.first_append_ms,
            "last_append_ms": ledger.last_append_ms,
        },
    )
    return True if await cursor.fetchone() is not None else None


async def trim(connection: Connection, *, topic_id: int, owner_epoch: int, through: int) -> bool | None:
    """Trim a topic's oldest ledgers. `through` is the id of the last ledger to trim.

    Return None if `owner_epoch` is out of date. Safe to repeat.
    """
    cursor = await connection.execute(
        query("lifetime", "trim"), {"topic_id": topic_id, "owner_epoch": owner_epoch, "through": through}
    )
    return True if await cursor.fetchone() is not None else None


async def undo_pins(connection: Connection, topic_id: int) -> list[Position]:
    """Return the mark-delete positions that an undo may still restore on this topic."""
    cursor = await connection.execute(query("lifetime", "undo_pins"), (topic_id,))
    return [Position(*row[0]) for row in await cursor.fetchall()]


async def bookmark_pins(connection: Connection, topic_id: int) -> list[Position]:
    """Return the positions of a topic's unexpired bookmarks."""
    cursor = await connection.execute(query("lifetime", "bookmark_pins"), (topic_id,))
    return [Position(*row) for row in await cursor.fetchall()]


async def segment_uses(connection: Connection) -> list[SegmentUse]:
    """Return how much of each closed segment is still in use, oldest segment first."""
    cursor = await connection.execute(query("lifetime", "segment_uses"))
    return [
        SegmentUse(
            segment_id=row[0],
            size_bytes=row[1],
            ledgers=row[2],
            open_ledgers=row[3],
            live_bytes=row[4],
        )
        for row in await cursor.fetchall()
    ]


async def segment_count(connection: Connection) -> int:
    """Return the number of segments."""
    cursor = await connection.execute(query("lifetime", "segment_count"))
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


async def open_long_lived(connection: Connection) -> tuple[int, int] | None:
    """Return the id and the size in bytes of the open segment for long-lived ledgers.

    Long-lived ledgers are copied from old segments into this segment. Return None if no such segment is open.
    """
    cursor = await connection.execute(query("lifetime", "open_long_lived"))
    row = await cursor.fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


async def open_segment(connection: Connection, now_ms: int, *, long_lived: bool) -> int:
    """Create a segment with its tables, and return the segment's id."""
    cursor = await connection.execute(query("lifetime", "open_segment"), (now_ms, long_lived))
    row = await cursor.fetchone()
    if row is None:
        raise psycopg.InternalError("vela_open_segment_v1 returned nothing")
    return int(row[0])


async def drop_segment(
    connection: Connection, segment_id: int, *, lock_timeout_ms: int, read_role: str
) -> bool:
    """Remove a closed segment from the views over all segments, and drop the segment's tables. Safe to repeat.

    Return False if a lock is not free in time. Also return False if the segment is open, was already dropped, or
    still has a ledger. If `read_role` is not empty, this role gets SELECT on Vela's views and remaining tables.
    """
    try:
        async with connection.transaction():
            await connection.execute(
                sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{lock_timeout_ms}ms"))
            )
            await connection.execute(sql.SQL("SET LOCAL vela.read_role = {}").format(sql.Literal(read_role)))
            cursor = await connection.execute(query("lifetime", "drop_segment"), (segment_id,))
            row = await cursor.fetchone()
    except psycopg.errors.LockNotAvailable:
        return False
    return row is not None and bool(row[0])


async def ledgers_in(connection: Connection, segment_id: int) -> list[LedgerToMove]:
    """Return the sealed ledgers of a segment, oldest first."""
    cursor = await connection.execute(query("lifetime", "ledgers_in"), (segment_id,))
    return [
        LedgerToMove(ledger_id=row[0], topic_id=row[1], topic_name=row[2], entries=row[3])
        for row in await cursor.fetchall()
    ]


async def copied_entries(connection: Connection, *, target: int, ledger_id: int) -> int:
    """Return how many entries of a ledger are already in the segment `target`."""
    statement = sql.SQL(query("lifetime", "copied_entries").decode()).format(target=entry_table(target))
    cursor = await connection.execute(statement, {"ledger_id": ledger_id})
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


async def copy_piece(
    connection: Connection,
    *,
    source: int,
    target: int,
    ledger_id: int,
    first: int,
    last: int,
    more_bytes: int,
) -> int:
    """Copy a ledger's entries from `first` through `last` into the segment `target`.

    The copy ends early if the data after the first entry would exceed the limit `more_bytes`. Return how many entries
    this call added. Raises psycopg.errors.UndefinedTable if either segment was dropped.
    """
    statement = sql.SQL(query("lifetime", "copy_piece").decode()).format(
        source=entry_table(source),
        source_rest=rest_table(source),
        target=entry_table(target),
        target_rest=rest_table(target),
    )
    async with connection.transaction():
        # The later commit of `move_ledger` also makes the copies durable.
        await connection.execute("SET LOCAL synchronous_commit = off")
        cursor = await connection.execute(
            statement, {"ledger_id": ledger_id, "first": first, "last": last, "more_bytes": more_bytes}
        )
        row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


async def move_ledger(
    connection: Connection, *, topic_id: int, owner_epoch: int, ledger_id: int, source: int, target: int
) -> bool | None:
    """Assign a ledger to the segment `target`. The caller must have copied all entries there.

    Return False if the ledger no longer belongs to `source`. Return None if `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("lifetime", "move_ledger"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "ledger_id": ledger_id,
            "source": source,
            "target": target,
        },
    )
    row = await cursor.fetchone()
    return None if row is None else bool(row[0])


async def topics_to_visit(
    connection: Connection, *, known: Sequence[int], limit: int
) -> list[tuple[int, str]]:
    """Return the ids and names of topics that may have data to remove, except the topics in `known`."""
    cursor = await connection.execute(
        query("lifetime", "topics_to_visit"), {"known": list(known), "limit": limit}
    )
    return [(row[0], row[1]) for row in await cursor.fetchall()]


async def oldest_pin(connection: Connection) -> OldestPin | None:
    """Return the subscription that is furthest behind in the oldest closed segment."""
    cursor = await connection.execute(query("lifetime", "oldest_pin"))
    row = await cursor.fetchone()
    if row is None:
        return None
    return OldestPin(topic_name=row[0], subscription=row[1], segment_id=row[2], opened_ms=row[3])
