"""Reads of one topic's log from PostgreSQL, by range and by choice, into the cache and the message index.

A short read is never the end (design 6): ids are gap-free, so an entry missing below the last one known is a fault,
unless its ledger was trimmed or moved to another segment while the read was under way: then the ledger map says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import psycopg

from broker.core.errors import PersistenceFailed
from broker.core.position import Position
from broker.log.entry_check import verified
from broker.storage.log import entries as store
from broker.storage.pool import ConnectionPool, repeat_until_done

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.ledger import Ledger, LedgerInfo
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection

__all__ = ["READ_ENTRIES", "GapInLog", "TopicReader"]

T = TypeVar("T")

READ_BYTES = 4 * 1024 * 1024  # of one read, beside its first entry
READ_ENTRIES = 1000
_INDEX_LOAD_ENTRIES = 32_768


class GapInLog(PersistenceFailed):
    """An entry that must be there is not. Delivery of the topic stops; nothing is passed over."""


class TopicReader:
    """Reads for all subscriptions of one topic."""

    def __init__(self, pool: ConnectionPool, topic_log: TopicLog) -> None:
        self._pool = pool
        self._log = topic_log

    async def read_ahead(self, position: Position) -> list[StoredEntry]:
        """`position` and what follows it in its ledger, into the cache too; empty when it is not stored yet.

        Raises GapInLog. Safe to cancel.
        """
        ledger = self._log.ledgers.get(position.ledger_id)
        if ledger is None or position.entry_id >= ledger.entries:
            return []
        last = min(ledger.entries, position.entry_id + READ_ENTRIES) - 1
        entries = await self._ask(
            position.ledger_id,
            lambda connection, segment_id: store.read(
                connection,
                segment_id=segment_id,
                ledger_id=position.ledger_id,
                first=position.entry_id,
                last=last,
                more_bytes=READ_BYTES,
            ),
            is_whole=bool,
            what="reading entries",
        )
        if entries is None:
            return []
        entries = verified(entries)
        whole = [entry for at, entry in enumerate(entries) if entry.entry_id == position.entry_id + at]
        self._log.remember(whole)
        if not whole:
            raise self._gap(position)
        return whole  # up to a gap, if there is one: the next read begins at it

    async def read_chosen(self, positions: Sequence[Position]) -> list[StoredEntry]:
        """The first of these entries, as many as one read takes, cached too. Raises GapInLog. Safe to cancel."""
        found: list[StoredEntry] = []
        for ledger_id, group in groupby(sorted(positions), key=lambda p: p.ledger_id):
            ledger = self._log.ledgers.get(ledger_id)
            if ledger is None:
                continue  # trimmed since it was delivered
            wanted = self._within_one_read(ledger, group)
            entries = await self._ask(
                ledger_id,
                partial(_read_some, ledger_id=ledger_id, entry_ids=[each.entry_id for each in wanted]),
                is_whole=partial(_has_all, wanted),
                what="reading entries again",
            )
            if entries is None:
                continue
            entries = verified(entries)
            self._log.remember(entries)
            found += entries
            stored = {entry.entry_id for entry in entries}
            for position in wanted:
                if position.entry_id not in stored and self._log.ledgers.contains(position):
                    raise self._gap(position)
        return found

    def _within_one_read(self, ledger: Ledger, positions: Iterable[Position]) -> list[Position]:
        """The first of these, up to the size of a read by what the index knows, else by the ledger's average."""
        average_bytes = ledger.size_bytes // max(1, ledger.entries)
        wanted: list[Position] = []
        size_bytes = 0
        for position in positions:
            if wanted and (size_bytes >= READ_BYTES or len(wanted) == READ_ENTRIES):
                break
            counts = self._log.index.counts(ledger, position.entry_id)
            size_bytes += average_bytes if counts is None else counts[1]
            wanted.append(position)
        return wanted

    async def load_index(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Load the counts that IndexMissing named: (ledger, first, last) each. Safe to cancel and repeat."""
        for ledger_id, first, last in ranges:
            for start in range(first, last + 1, _INDEX_LOAD_ENTRIES):
                end = min(last, start + _INDEX_LOAD_ENTRIES - 1)
                rows = await self._ask(
                    ledger_id,
                    partial(_read_counts, ledger_id=ledger_id, first=max(0, start - 1), last=end),
                    is_whole=lambda rows, end=end: bool(rows) and rows[-1][0] == end,  # type: ignore[misc]
                    what="reading counts",
                )
                if rows is None:
                    break  # trimmed: its counts are not missing any more
                if not rows or rows[-1][0] != end:
                    raise self._gap(Position(ledger_id, end))
                self._log.index.record(
                    ledger_id, rows[0][0], [row[1] for row in rows], [row[2] for row in rows]
                )

    async def append_ms(self, position: Position) -> int | None:
        """When an entry was appended; None when it is not stored. Safe to cancel and repeat."""
        return await self._ask(
            position.ledger_id,
            partial(_append_ms_at, ledger_id=position.ledger_id, entry_id=position.entry_id),
            is_whole=lambda found: found is not None,
            what="reading a time",
        )

    async def messages_through(self, position: Position) -> int | None:
        """Messages of the topic up to and with an entry; None when it is not stored. Safe to repeat."""
        return await self._ask(
            position.ledger_id,
            partial(_messages_through, ledger_id=position.ledger_id, entry_id=position.entry_id),
            is_whole=lambda found: found is not None,
            what="searching an offset",
        )

    async def position_at_time(self, time_ms: int) -> Position:
        """The first entry appended at or after `time_ms`; the end of the log when there is none.

        The ledger map finds the ledger, a binary search by primary key the entry: append times never go back.
        """
        for ledger in self._log.ledgers.infos():
            if not ledger.entries or ledger.last_append_ms < time_ms:
                continue
            found = await self._entry_at_time(ledger, time_ms)
            if found is not None:
                return Position(ledger.ledger_id, found)
        return self._log.ledgers.end()

    async def _entry_at_time(self, ledger: LedgerInfo, time_ms: int) -> int | None:
        """The first entry of a ledger appended at or after a time before its end; None when it was trimmed."""
        low, high = 0, ledger.entries - 1
        while low < high:
            middle = Position(ledger.ledger_id, (low + high) // 2)
            found_ms = await self.append_ms(middle)
            if found_ms is None:
                if self._log.ledgers.contains(middle):
                    raise self._gap(middle)
                return None
            if found_ms < time_ms:
                low = middle.entry_id + 1
            else:
                high = middle.entry_id
        return low

    async def _ask(
        self,
        ledger_id: int,
        call: Callable[[Connection, int], Awaitable[T]],
        *,
        is_whole: Callable[[T], bool],
        what: str,
    ) -> T | None:
        """Ask the segment in which a ledger lies, and the next one when it was moved meanwhile. None: it was trimmed.

        An answer that is not whole is given only when the ledger still lies where it was looked for.
        """
        while (segment_id := self._log.segments.get(ledger_id)) is not None:
            try:
                answer = await repeat_until_done(
                    self._pool,
                    lambda connection, asked=segment_id: call(connection, asked),  # type: ignore[misc]
                    what=what,
                )
            except psycopg.errors.UndefinedTable:
                if self._log.segments.get(ledger_id) == segment_id:
                    raise
                continue
            if is_whole(answer) or self._log.segments.get(ledger_id) == segment_id:
                return answer
        return None

    def _gap(self, position: Position) -> GapInLog:
        segment_id = self._log.segments.get(position.ledger_id)
        return GapInLog(
            f"entry {position} is missing from vela_entry_{segment_id} though the ledger holds it; delivery stops here:"
            " check the database for lost rows, then move the cursor past them or restart the broker"
        )


async def _read_some(
    connection: Connection, segment_id: int, *, ledger_id: int, entry_ids: list[int]
) -> list[StoredEntry]:
    return await store.read_some(connection, segment_id=segment_id, ledger_id=ledger_id, entry_ids=entry_ids)


def _has_all(wanted: Sequence[Position], entries: Sequence[StoredEntry]) -> bool:
    return len(entries) == len({position.entry_id for position in wanted})


async def _read_counts(
    connection: Connection, segment_id: int, *, ledger_id: int, first: int, last: int
) -> list[tuple[int, int, int]]:
    return await store.read_counts(
        connection, segment_id=segment_id, ledger_id=ledger_id, first=first, last=last
    )


async def _messages_through(
    connection: Connection, segment_id: int, *, ledger_id: int, entry_id: int
) -> int | None:
    return await store.messages_through(
        connection, segment_id=segment_id, ledger_id=ledger_id, entry_id=entry_id
    )


async def _append_ms_at(
    connection: Connection, segment_id: int, *, ledger_id: int, entry_id: int
) -> int | None:
    return await store.append_ms_at(connection, segment_id=segment_id, ledger_id=ledger_id, entry_id=entry_id)
