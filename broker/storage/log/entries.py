"""The message log in PostgreSQL. Each call is one transaction.

A segment is a pair of tables with the entries of many ledgers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from psycopg.pq.abc import PGresult

from broker.core.entry import StoredEntry
from broker.storage.connection import Connection
from broker.storage.log.copy_rows import copy_rows, entries_stream, rest_stream
from broker.storage.log.packed_arrays import bigints, byteas, integers, smallints
from broker.storage.log.pieces import FIRST_BYTES, divided
from broker.storage.prepared_connection import PreparedConnection
from broker.storage.queries import for_segment, query

__all__ = [
    "COPY_BYTES",
    "AppendRows",
    "LastEntry",
    "append",
    "append_ms_at",
    "can_be_copied",
    "last_entry",
    "messages_through",
    "read",
    "read_counts",
    "read_some",
]

# From this size on, COPY takes less CPU time than INSERT.
COPY_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class AppendRows:
    """The rows that one append inserts or deletes, by topic id."""

    entries: dict[int, Sequence[StoredEntry]] = field(default_factory=dict)
    # Entries that are not due yet. They are also in `entries`.
    delayed: dict[int, Sequence[StoredEntry]] = field(default_factory=dict)
    moved: dict[int, Sequence[int]] = field(default_factory=dict)  # Ids of outbox rows that become entries
    size_bytes: int = 0

    def add(
        self,
        topic_id: int,
        entries: Sequence[StoredEntry],
        *,
        size_bytes: int,
        delayed: Sequence[StoredEntry] = (),
        moved: Sequence[int] = (),
    ) -> None:
        """Add the rows of a topic. Call this once for each topic."""
        self.entries[topic_id] = entries
        self.size_bytes += size_bytes
        if delayed:
            self.delayed[topic_id] = delayed
        if moved:
            self.moved[topic_id] = moved


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEntry:
    """The last stored entry of a ledger, without data.

    The cumulative values are the topic's messages and bytes from its first entry through this one.
    """

    entry_id: int
    messages: int
    append_ms: int
    cumulative_messages: int
    cumulative_bytes: int


def can_be_copied(size_bytes: int, delayed: Sized, moved: Sized) -> bool:
    """Return whether `append` can use COPY."""
    return size_bytes >= COPY_BYTES and not delayed and not moved


async def append(
    connection: PreparedConnection,
    *,
    segment_id: int,
    epochs: dict[int, int],
    rows: AppendRows,
    copying: Callable[[], None] | None = None,
    turn: asyncio.Future[bool] | None = None,
) -> set[int]:
    """Store the rows of each topic whose owner epoch is still the one in `epochs`. Return the ids of these topics.

    With COPY, `copying` is called after the server has checked the owner epochs. If `turn` is given, the COPY commits
    only after `turn` is set to true. If `turn` is set to false, or is not set within 5 s, this function stores nothing
    and raises psycopg.errors.QueryCanceled.

    Raises ValueError if `turn` is given but the rows cannot be copied. Raises psycopg.Error if PostgreSQL refuses a
    row or the connection is lost. After a lost connection or a cancelled call, the rows may have been stored.
    """
    if not can_be_copied(rows.size_bytes, rows.delayed, rows.moved):
        if turn is not None:
            raise ValueError("one statement commits at once: rows that wait for a turn must be copied")
        return await _insert(connection, segment_id, epochs, rows)
    return await _copy(connection, segment_id, epochs, rows, copying, turn)


async def _insert(
    connection: PreparedConnection, segment_id: int, epochs: dict[int, int], rows: AppendRows
) -> set[int]:
    topic_ids = [topic_id for topic_id, entries in rows.entries.items() for _ in entries]
    stored = [entry for entries in rows.entries.values() for entry in entries]
    (
        ledger_ids,
        entry_ids,
        messages,
        flags,
        key_hashes,
        deliver_at_ms,
        append_ms,
        cumulative_messages,
        cumulative_bytes,
        data,
    ) = zip(*stored, strict=True)
    parts = ["append"]
    rest_bytes, more = _zeros(len(stored)), list[bytes]()
    has_more = bool(rows.delayed or rows.moved)
    if has_more or max(map(len, data)) > FIRST_BYTES:
        halves = [divided(each) for each in data]
        rest_bytes = integers([len(each) - len(first) for each, (first, _) in zip(data, halves, strict=True)])
        data = tuple(first for first, _ in halves)
        parts.append("append_rest")
        more += _pieces(
            [
                (topic_id, entry.ledger_id, entry.entry_id, number, piece)
                for topic_id, entry, (_, rest) in zip(topic_ids, stored, halves, strict=True)
                for number, piece in enumerate(rest)
            ]
        )
    if has_more:
        parts.append("append_more")
        more += (*_delayed(rows), *_moved(rows))
    values = [
        bigints(tuple(epochs.keys())),
        bigints(tuple(epochs.values())),
        bigints(topic_ids),
        bigints(ledger_ids),
        bigints(entry_ids),
        bigints(append_ms),
        bigints(deliver_at_ms),
        bigints(cumulative_messages),
        bigints(cumulative_bytes),
        integers(messages),
        rest_bytes,
        integers(key_hashes),
        smallints(flags),
        byteas(data),
        *more,
    ]
    result = await connection.execute(_statement(segment_id, tuple(parts)), values)
    return {int.from_bytes(result.get_value(row, 0) or b"") for row in range(result.ntuples)}


@lru_cache(maxsize=64)
def _statement(segment_id: int, parts: tuple[str, ...]) -> bytes:
    return b"\n".join(for_segment(name, segment_id) for name in (*parts, "appended"))


@lru_cache(maxsize=128)
def _zeros(count: int) -> bytes:
    return integers([0] * count)


def _pieces(pieces: Sequence[tuple[int, int, int, int, memoryview]]) -> tuple[bytes, ...]:
    return (
        bigints([topic_id for topic_id, _, _, _, _ in pieces]),
        bigints([ledger_id for _, ledger_id, _, _, _ in pieces]),
        bigints([entry_id for _, _, entry_id, _, _ in pieces]),
        integers([number for _, _, _, number, _ in pieces]),
        byteas([data for _, _, _, _, data in pieces]),
    )


def _delayed(rows: AppendRows) -> tuple[bytes, ...]:
    delayed = [(topic_id, entry) for topic_id, entries in rows.delayed.items() for entry in entries]
    return (
        bigints([topic_id for topic_id, _ in delayed]),
        bigints([entry.deliver_at_ms for _, entry in delayed]),
        bigints([entry.ledger_id for _, entry in delayed]),
        bigints([entry.entry_id for _, entry in delayed]),
    )


def _moved(rows: AppendRows) -> tuple[bytes, ...]:
    moved = [(topic_id, row_id) for topic_id, row_ids in rows.moved.items() for row_id in row_ids]
    return bigints([topic_id for topic_id, _ in moved]), bigints([row_id for _, row_id in moved])


async def _copy(
    connection: PreparedConnection,
    segment_id: int,
    epochs: dict[int, int],
    rows: AppendRows,
    copying: Callable[[], None] | None,
    turn: asyncio.Future[bool] | None,
) -> set[int]:
    packed = {topic_id: copy_rows(entries) for topic_id, entries in rows.entries.items()}
    has_rest = any(each.pages or each.parts for each in packed.values())
    locking = query("entries", "lock_owners") % (
        b",".join(b"%d" % topic_id for topic_id in epochs),
        b",".join(b"%d" % epoch for epoch in epochs.values()),
    )
    names = ("copy_entries", "copy_rest") if has_rest else ("copy_entries",)
    owned: set[int] = set()

    def streams(locked: PGresult) -> Iterator[bytes]:
        owned.update(int(locked.get_value(row, 0) or b"") for row in range(locked.ntuples))
        if copying is not None:
            copying()
        kept = [each for topic_id, each in packed.items() if topic_id in owned]
        yield entries_stream(kept)
        if has_rest:
            yield rest_stream(kept)

    statements = b";".join((locking, *(for_segment(name, segment_id) for name in names)))
    await connection.copy(statements, streams, turn=turn)
    return owned


async def read(
    connection: Connection, *, segment_id: int, ledger_id: int, first: int, last: int, more_bytes: int
) -> list[StoredEntry]:
    """Return a ledger's entries from `first` through `last`, in order. Safe to repeat and to cancel.

    The list ends early if the data after the first entry would exceed the limit `more_bytes`. If `first` is not stored,
    the list is empty.
    """
    cursor = connection.cursor(binary=True)
    await cursor.execute(
        for_segment("read", segment_id), (ledger_id, first, last, ledger_id, first, more_bytes)
    )
    return [_entry(ledger_id, row) for row in await cursor.fetchall()]


async def read_some(
    connection: Connection, *, segment_id: int, ledger_id: int, entry_ids: Sequence[int]
) -> list[StoredEntry]:
    """Return the stored entries with these ids, sorted by id. Safe to repeat and to cancel."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(for_segment("read_some", segment_id), (ledger_id, list(entry_ids)))
    return [_entry(ledger_id, row) for row in await cursor.fetchall()]


async def read_counts(
    connection: Connection, *, segment_id: int, ledger_id: int, first: int, last: int
) -> list[tuple[int, int, int]]:
    """Return the entry id, cumulative messages and cumulative bytes of each entry from `first` through `last`."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(for_segment("read_counts", segment_id), (ledger_id, first, last))
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def last_entry(connection: Connection, *, segment_id: int, ledger_id: int) -> LastEntry | None:
    """Return the last stored entry of a ledger, or None."""
    cursor = await connection.execute(for_segment("last", segment_id), (ledger_id,))
    row = await cursor.fetchone()
    if row is None:
        return None
    return LastEntry(
        entry_id=row[0],
        messages=row[1],
        append_ms=row[2],
        cumulative_messages=row[3],
        cumulative_bytes=row[4],
    )


async def append_ms_at(
    connection: Connection, *, segment_id: int, ledger_id: int, entry_id: int
) -> int | None:
    """Return when an entry was appended, or None if the entry is not stored."""
    cursor = await connection.execute(for_segment("append_ms_at", segment_id), (ledger_id, entry_id))
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def messages_through(
    connection: Connection, *, segment_id: int, ledger_id: int, entry_id: int
) -> int | None:
    """Return the number of the topic's messages up to the end of an entry, or None if the entry is not stored."""
    cursor = await connection.execute(for_segment("messages_through", segment_id), (ledger_id, entry_id))
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


def _entry(ledger_id: int, row: tuple[int, int, int, int | None, int, int, int, int, bytes]) -> StoredEntry:
    (
        entry_id,
        messages,
        flags,
        key_hash,
        deliver_at_ms,
        append_ms,
        cumulative_messages,
        cumulative_bytes,
        data,
    ) = row
    return StoredEntry(
        ledger_id,
        entry_id,
        messages,
        flags,
        key_hash,
        deliver_at_ms,
        append_ms,
        cumulative_messages,
        cumulative_bytes,
        data,
    )
