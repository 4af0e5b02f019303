"""Reads of one topic's log from PostgreSQL, by range and by choice, into the cache and the message index.

A short read is never the end (design 6): ids are gap-free, so an entry missing below the last one known is a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from broker.core.errors import PersistenceFailed
from broker.core.position import Position
from broker.service.connections import ConnectionPool, repeat_until_done
from broker.service.entry_check import verified
from broker.storage import log as store

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.ledger import Ledger
    from broker.service.topic_log import TopicLog

__all__ = ["GapInLog", "TopicReader"]

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
        segment_id = self._log.segments[position.ledger_id]
        entries = await repeat_until_done(
            self._pool,
            partial(
                store.read,
                segment_id=segment_id,
                ledger_id=position.ledger_id,
                first=position.entry_id,
                last=min(ledger.entries, position.entry_id + READ_ENTRIES) - 1,
                more_bytes=READ_BYTES,
            ),
            what="reading entries",
        )
        entries = verified(entries)
        whole = [entry for at, entry in enumerate(entries) if entry.entry_id == position.entry_id + at]
        self._log.remember(whole)
        if not whole:
            raise _gap(position, segment_id)
        return whole  # up to a gap, if there is one: the next read begins at it

    async def read_chosen(self, positions: Sequence[Position]) -> list[StoredEntry]:
        """The first of these entries, as many as one read takes, cached too. Raises GapInLog. Safe to cancel."""
        found: list[StoredEntry] = []
        for ledger_id, group in groupby(sorted(positions), key=lambda p: p.ledger_id):
            ledger = self._log.ledgers.get(ledger_id)
            if ledger is None:
                continue  # trimmed since it was delivered
            segment_id = self._log.segments[ledger_id]
            wanted = self._within_one_read(ledger, group)
            entries = await repeat_until_done(
                self._pool,
                partial(
                    store.read_some,
                    segment_id=segment_id,
                    ledger_id=ledger_id,
                    entry_ids=[position.entry_id for position in wanted],
                ),
                what="reading entries again",
            )
            entries = verified(entries)
            self._log.remember(entries)
            found += entries
            stored = {entry.entry_id for entry in entries}
            for position in wanted:
                if position.entry_id not in stored and self._log.ledgers.contains(position):
                    raise _gap(position, segment_id)
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
            segment_id = self._log.segments[ledger_id]
            for start in range(first, last + 1, _INDEX_LOAD_ENTRIES):
                end = min(last, start + _INDEX_LOAD_ENTRIES - 1)
                rows = await repeat_until_done(
                    self._pool,
                    partial(
                        store.read_counts,
                        segment_id=segment_id,
                        ledger_id=ledger_id,
                        first=max(0, start - 1),
                        last=end,
                    ),
                    what="reading counts",
                )
                if not rows or rows[-1][0] != end:
                    raise _gap(Position(ledger_id, end), segment_id)
                self._log.index.record(
                    ledger_id, rows[0][0], [row[1] for row in rows], [row[2] for row in rows]
                )

    async def position_at_time(self, time_ms: int) -> Position:
        """The first entry appended at or after `time_ms`; the end of the log when there is none.

        The ledger map finds the ledger, a binary search by primary key the entry: append times never go back.
        """
        for ledger in self._log.ledgers.infos():
            if not ledger.entries or ledger.last_append_ms < time_ms:
                continue
            low, high = 0, ledger.entries - 1
            segment_id = self._log.segments[ledger.ledger_id]
            while low < high:
                middle = (low + high) // 2
                found = await repeat_until_done(
                    self._pool,
                    partial(
                        store.append_ms_at,
                        segment_id=segment_id,
                        ledger_id=ledger.ledger_id,
                        entry_id=middle,
                    ),
                    what="searching by time",
                )
                if found is None:
                    raise _gap(Position(ledger.ledger_id, middle), segment_id)
                if found < time_ms:
                    low = middle + 1
                else:
                    high = middle
            return Position(ledger.ledger_id, low)
        return self._log.ledgers.end()


def _gap(position: Position, segment_id: int) -> GapInLog:
    return GapInLog(
        f"entry {position} is missing from vela_entry_{segment_id} though the ledger holds it; delivery stops here: "
        "check the database for lost rows, then move the cursor past them or restart the broker"
    )
