"""The log in PostgreSQL: fenced appends, and reads by range. Each call is one statement; there is no state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.core.entry import StoredEntry
from broker.storage.connection import Connection
from broker.storage.log.packed_arrays import bigints, byteas, integers, smallints
from broker.storage.prepared_connection import PreparedConnection
from broker.storage.queries import for_segment

__all__ = [
    "AppendColumns",
    "LastEntry",
    "append",
    "append_ms_at",
    "last_entry",
    "messages_through",
    "read",
    "read_counts",
    "read_some",
]


@dataclass(slots=True)
class AppendColumns:
    """The rows of one append statement as bound columns. The lists without a prefix have one item per entry."""

    topic_ids: list[int] = field(default_factory=list)
    ledger_ids: list[int] = field(default_factory=list)
    entry_ids: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    key_hashes: list[int | None] = field(default_factory=list)
    append_ms: list[int] = field(default_factory=list)
    deliver_at_ms: list[int] = field(default_factory=list)
    cumulative_messages: list[int] = field(default_factory=list)
    cumulative_bytes: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    delayed_topic_ids: list[int] = field(
        default_factory=list
    )  # `delayed_…`: due times of entries that are not due yet
    delayed_ms: list[int] = field(default_factory=list)
    delayed_ledger_ids: list[int] = field(default_factory=list)
    delayed_entry_ids: list[int] = field(default_factory=list)
    moved_topic_ids: list[int] = field(default_factory=list)  # `moved_…`: outbox rows of entries
    moved_row_ids: list[int] = field(default_factory=list)

    def add(self, topic_id: int, entry: StoredEntry) -> None:
        """Add one entry."""
        self.topic_ids.append(topic_id)
        self.ledger_ids.append(entry.ledger_id)
        self.entry_ids.append(entry.entry_id)
        self.messages.append(entry.messages)
        self.flags.append(entry.flags)
        self.key_hashes.append(entry.key_hash)
        self.append_ms.append(entry.append_ms)
        self.deliver_at_ms.append(entry.deliver_at_ms)
        self.cumulative_messages.append(entry.cumulative_messages)
        self.cumulative_bytes.append(entry.cumulative_bytes)
        self.data.append(entry.data)

    def add_delayed(self, topic_id: int, entry: StoredEntry) -> None:
        """Add the due time of an entry, in addition to the entry itself."""
        self.delayed_topic_ids.append(topic_id)
        self.delayed_ms.append(entry.deliver_at_ms)
        self.delayed_ledger_ids.append(entry.ledger_id)
        self.delayed_entry_ids.append(entry.entry_id)

    def add_moved(self, topic_id: int, row_ids: Sequence[int]) -> None:
        """Add outbox rows that the statement stores as entries and deletes."""
        self.moved_topic_ids.extend([topic_id] * len(row_ids))
        self.moved_row_ids.extend(row_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEntry:
    """The last stored entry of a ledger, without its data. The cumulative totals are those of the topic."""

    entry_id: int
    messages: int
    append_ms: int
    cumulative_messages: int
    cumulative_bytes: int


async def append(
    connection: PreparedConnection, *, segment_id: int, epochs: dict[int, int], rows: AppendColumns
) -> set[int]:
    """Store the rows of each topic whose epoch is still the one in `epochs` (topic → epoch).

    Return the topics whose rows are stored. This statement will never store the rows of the others. Raises
    psycopg.Error; `is_outcome_unknown` then says whether the rows may be stored all the same. Not safe to cancel: the
    outcome would be unknown.
    """
    more: tuple[bytes, ...] = ()
    if rows.delayed_ms or rows.moved_row_ids:
        more = (
            bigints(rows.delayed_topic_ids),
            bigints(rows.delayed_ms),
            bigints(rows.delayed_ledger_ids),
            bigints(rows.delayed_entry_ids),
            bigints(rows.moved_topic_ids),
            bigints(rows.moved_row_ids),
        )
    result = await connection.execute(
        for_segment("append_more" if more else "append", segment_id),
        (
            bigints(tuple(epochs.keys())),
            bigints(tuple(epochs.values())),
            bigints(rows.topic_ids),
            bigints(rows.ledger_ids),
            bigints(rows.entry_ids),
            integers(rows.messages),
            smallints(rows.flags),
            integers(rows.key_hashes),
            bigints(rows.append_ms),
            bigints(rows.deliver_at_ms),
            bigints(rows.cumulative_messages),
            bigints(rows.cumulative_bytes),
            byteas(rows.data),
            *more,
        ),
    )
    return {int.from_bytes(result.get_value(row, 0) or b"") for row in range(result.ntuples)}


async def read(
    connection: Connection, *, segment_id: int, ledger_id: int, first: int, last: int, more_bytes: int
) -> list[StoredEntry]:
    """Return entries `first`..`last` (inclusive) of one ledger, in order, with at most `more_bytes` after the first.

    Returns nothing if `first` itself is not stored. Safe to repeat and to cancel.
    """
    cursor = connection.cursor(binary=True)
    await cursor.execute(
        for_segment("read", segment_id), (ledger_id, first, last, ledger_id, first, more_bytes)
    )
    return [_entry(ledger_id, row) for row in await cursor.fetchall()]


async def read_some(
    connection: Connection, *, segment_id: int, ledger_id: int, entry_ids: Sequence[int]
) -> list[StoredEntry]:
    """Return the entries with these ids that are stored in one ledger, in order. Safe to repeat and to cancel."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(for_segment("read_some", segment_id), (ledger_id, list(entry_ids)))
    return [_entry(ledger_id, row) for row in await cursor.fetchall()]


async def read_counts(
    connection: Connection, *, segment_id: int, ledger_id: int, first: int, last: int
) -> list[tuple[int, int, int]]:
    """Return (entry id, cumulative messages, cumulative bytes) of `first`..`last`, for the message index."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(for_segment("read_counts", segment_id), (ledger_id, first, last))
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def last_entry(connection: Connection, *, segment_id: int, ledger_id: int) -> LastEntry | None:
    """Return the last stored entry of a ledger, or None if it is empty."""
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
    """Return when one entry was appended, in Unix milliseconds, or None if it is not stored."""
    cursor = await connection.execute(for_segment("append_ms_at", segment_id), (ledger_id, entry_id))
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def messages_through(
    connection: Connection, *, segment_id: int, ledger_id: int, entry_id: int
) -> int | None:
    """Return the topic's messages up to and including one entry, or None if it is not stored."""
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
