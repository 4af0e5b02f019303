"""Compacted topics in PostgreSQL.

Each compaction run has a number, `attempt`, which is also the `generation` of the entries that the run stores. A
function with an `owner_epoch` parameter returns None if this epoch is out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.core.entry import StoredEntry
from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "CompactedPage",
    "CompactionResult",
    "Horizon",
    "Kept",
    "StoredCompaction",
    "add",
    "begin",
    "empty",
    "fail",
    "first_since",
    "forget",
    "last",
    "load",
    "publish",
    "read",
    "sweep",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The last position that compaction covers, and the topic's totals up to this position.

    The totals include trimmed entries.
    """

    position: Position
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The totals of the entries that a compaction kept."""

    entries: int = 0
    messages: int = 0
    size_bytes: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(
            entries=self.entries + other.entries,
            messages=self.messages + other.messages,
            size_bytes=self.size_bytes + other.size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompaction:
    """The stored state of a topic's compaction."""

    horizon: Horizon
    generation: int  # 0 until a run succeeds or the topic is emptied
    attempt: int
    kept: Kept
    failures: int = 0  # Consecutive failures
    retry_ms: int = 0  # No automatic run starts before this Unix time


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result of a run that succeeded."""

    kept: Kept
    removed_messages: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPage:
    """A page of kept entries, and the horizon of their generation."""

    horizon: Position
    entries: list[StoredEntry]


async def load(connection: Connection, topic_id: int) -> StoredCompaction | None:
    """Load the state of a topic's compaction, or return None.

    Call this only while the broker loads the topic, because this function marks an unfinished run as failed.
    """
    cursor = await connection.execute(query("compaction", "load"), {"topic_id": topic_id})
    row = await cursor.fetchone()
    if row is None:
        return None
    return StoredCompaction(
        horizon=Horizon(position=Position(row[0], row[1]), messages=row[2], size_bytes=row[3]),
        generation=row[4],
        attempt=row[5],
        kept=Kept(entries=row[6], messages=row[7], size_bytes=row[8]),
        failures=row[9],
        retry_ms=row[10] or 0,
    )


async def begin(connection: Connection, *, topic_id: int, owner_epoch: int, horizon: Horizon) -> int | None:
    """Begin a run and return its number. Store `horizon` only for the topic's first run."""
    cursor = await connection.execute(
        query("compaction", "begin"), {**_guard(topic_id, owner_epoch), **_place(horizon)}
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def add(
    connection: Connection, *, topic_id: int, owner_epoch: int, attempt: int, entries: Sequence[StoredEntry]
) -> bool | None:
    """Store entries of a run. Safe to repeat."""
    cursor = await connection.execute(
        query("compaction", "add"),
        (
            topic_id,
            owner_epoch,
            attempt,
            [entry.ledger_id for entry in entries],
            [entry.entry_id for entry in entries],
            [entry.messages for entry in entries],
            [entry.flags for entry in entries],
            [entry.key_hash for entry in entries],
            [entry.append_ms for entry in entries],
            [entry.deliver_at_ms for entry in entries],
            [entry.cumulative_messages for entry in entries],
            [entry.cumulative_bytes for entry in entries],
            [entry.data for entry in entries],
        ),
    )
    return await cursor.fetchone() is not None or None


async def publish(
    connection: Connection,
    *,
    topic_id: int,
    owner_epoch: int,
    attempt: int,
    horizon: Horizon,
    result: CompactionResult,
) -> bool | None:
    """Make the run's entries visible to readers and return True. Safe to repeat.

    Return False if the topic was emptied or its compaction was deleted during the run.
    """
    cursor = await connection.execute(
        query("compaction", "publish"),
        {
            **_guard(topic_id, owner_epoch),
            **_place(horizon),
            "attempt": attempt,
            "kept_entries": result.kept.entries,
            "kept_messages": result.kept.messages,
            "kept_bytes": result.kept.size_bytes,
            "removed_messages": result.removed_messages,
            "duration_ms": result.duration_ms,
        },
    )
    row = await cursor.fetchone()
    return None if row is None else bool(row[0])


async def fail(
    connection: Connection,
    *,
    topic_id: int,
    owner_epoch: int,
    attempt: int,
    error: str,
    failures: int,
    retry_ms: int,
) -> bool | None:
    """Store why a run failed, and the earliest time of the next automatic run. Safe to repeat.

    Does nothing if the run is no longer under way.
    """
    cursor = await connection.execute(
        query("compaction", "fail"),
        {
            **_guard(topic_id, owner_epoch),
            "attempt": attempt,
            "error": error,
            "failures": failures,
            "retry_ms": retry_ms,
        },
    )
    return await cursor.fetchone() is not None or None


async def empty(
    connection: Connection, *, topic_id: int, owner_epoch: int, attempt: int, horizon: Horizon
) -> bool | None:
    """Move the horizon. After that, readers get no entries up to the horizon. Safe to repeat.

    `attempt` must be a new run number, so that a run under way cannot publish its entries.
    """
    cursor = await connection.execute(
        query("compaction", "empty"),
        {**_guard(topic_id, owner_epoch), **_place(horizon), "attempt": attempt},
    )
    return await cursor.fetchone() is not None or None


async def forget(connection: Connection, *, topic_id: int, owner_epoch: int) -> bool | None:
    """Delete the state of a topic's compaction. Safe to repeat.

    The entries remain until `sweep` deletes them.
    """
    cursor = await connection.execute(query("compaction", "forget"), _guard(topic_id, owner_epoch))
    return await cursor.fetchone() is not None or None


async def sweep(
    connection: Connection, *, topic_id: int, owner_epoch: int, generation: int, limit: int
) -> int | None:
    """Delete at most `limit` entries that do not belong to `generation`. Return how many were deleted."""
    cursor = await connection.execute(
        query("compaction", "sweep"),
        {**_guard(topic_id, owner_epoch), "generation": generation, "limit": limit},
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def read(
    connection: Connection, topic_id: int, *, first: Position, most: int, more_bytes: int
) -> CompactedPage | None:
    """Return kept entries from `first` on, or None if the topic has no compaction.

    The page ends early if its data reaches the limit `more_bytes`. Safe to repeat and to cancel.
    """
    cursor = connection.cursor(binary=True)
    await cursor.execute(query("compaction", "read"), (*first, most, more_bytes, topic_id))
    rows = await cursor.fetchall()
    if not rows:
        return None
    return CompactedPage(
        horizon=Position(rows[0][0], rows[0][1]),
        entries=[_entry(row[2:]) for row in rows if row[2] is not None],
    )


async def last(connection: Connection, topic_id: int) -> StoredEntry | None:
    """Return the last kept entry, or None."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(query("compaction", "last"), (topic_id,))
    row = await cursor.fetchone()
    return None if row is None else _entry(row)


async def first_since(connection: Connection, topic_id: int, time_ms: int) -> Position | None:
    """Return the position of the first kept entry appended at or after `time_ms`, or None."""
    cursor = await connection.execute(query("compaction", "first_since"), (topic_id, time_ms))
    row = await cursor.fetchone()
    return None if row is None else Position(row[0], row[1])


def _guard(topic_id: int, owner_epoch: int) -> dict[str, int]:
    return {"topic_id": topic_id, "owner_epoch": owner_epoch}


def _place(horizon: Horizon) -> dict[str, int]:
    return {
        "ledger_id": horizon.position.ledger_id,
        "entry_id": horizon.position.entry_id,
        "messages": horizon.messages,
        "size_bytes": horizon.size_bytes,
    }


def _entry(
    row: tuple[int, int, int, int, int | None, int, int, int, int, bytes],
) -> StoredEntry:
    return StoredEntry(*row)
