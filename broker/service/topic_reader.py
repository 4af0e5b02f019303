"""Reads of one topic's log from PostgreSQL, by range and by choice, into the cache and the message index.

A short read is never the end (design 6): ids are gap-free, so an entry missing below the last one known is a fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from broker.core.errors import PersistenceFailed
from broker.core.position import Position
from broker.service.connections import ConnectionPool, repeat_until_done
from broker.storage import log as store

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.service.topic_log import TopicLog

__all__ = ["GapInLog", "TopicReader"]

log = logging.getLogger(__name__)

READ_BYTES = 4 * 1024 * 1024  # aimed at for one read
READ_ENTRIES = 1000
_INDEX_LOAD_ENTRIES = 32_768


class GapInLog(PersistenceFailed):
    """An entry that must be there is not. Delivery of the topic stops; nothing is passed over."""


class TopicReader:
    """Reads for all subscriptions of one topic."""

    def __init__(self, pool: ConnectionPool, topic_log: TopicLog) -> None:
        self._pool = pool
        self._log = topic_log

    async def read_ahead(self, position: Position) -> None:
        """Bring `position` and what follows it in its ledger into the cache. Raises GapInLog. Safe to cancel."""
        ledger = self._log.ledgers.get(position.ledger_id)
        if ledger is None or position.entry_id >= ledger.entries:
            return
        last = ledger.entries - 1
        average = max(1, ledger.size_bytes // max(1, ledger.entries))
        limit = max(1, min(READ_ENTRIES, READ_BYTES // average))
        segment_id = self._log.segments[position.ledger_id]
        entries = await repeat_until_done(
            self._pool,
            partial(
                store.read,
                segment_id=segment_id,
                ledger_id=position.ledger_id,
                first=position.entry_id,
                last=last,
                limit=limit,
            ),
            what="reading entries",
        )
        expected = min(limit, last - position.entry_id + 1)
        whole = [entry for at, entry in enumerate(entries) if entry.entry_id == position.entry_id + at]
        self._log.remember(whole)
        if not whole:
            raise GapInLog(
                f"entry {position} is missing from vela_entry_{segment_id} though the ledger has {last + 1} entries; "
                "delivery stops here, check the database for lost rows"
            )
        if len(whole) < expected:
            log.error("read of %s returned %s of %s entries", position, len(whole), expected)

    async def read_chosen(self, positions: Sequence[Position]) -> None:
        """Bring these entries into the cache, whichever are stored. Safe to cancel."""
        for ledger_id, group in groupby(sorted(positions), key=lambda p: p.ledger_id):
            segment_id = self._log.segments.get(ledger_id)
            if segment_id is None:
                continue
            entry_ids = [position.entry_id for position in group]
            entries: list[StoredEntry] = await repeat_until_done(
                self._pool,
                partial(store.read_some, segment_id=segment_id, ledger_id=ledger_id, entry_ids=entry_ids),
                what="reading entries again",
            )
            self._log.remember(entries)

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
                    raise GapInLog(f"entry {ledger_id}:{end} is missing from vela_entry_{segment_id}")
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
                    raise GapInLog(
                        f"entry {ledger.ledger_id}:{middle} is missing from vela_entry_{segment_id}"
                    )
                if found < time_ms:
                    low = middle + 1
                else:
                    high = middle
            return Position(ledger.ledger_id, low)
        return self._log.ledgers.end()
