"""Read the entries that compaction kept, up to the compaction horizon. After the horizon, readers get the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.position import Position
from broker.log.compaction.counters import CompactionCounters
from broker.log.compaction.entries import last_kept_index
from broker.log.entry_check import verified
from broker.storage.log import compaction as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.storage.log.compaction import StoredCompaction
    from broker.storage.pool import ConnectionPool

__all__ = ["CompactedView", "ReadPage"]

_PAGE_ENTRIES: Final = 500
_PAGE_BYTES: Final = 1024 * 1024


class ReadPage(NamedTuple):
    """All kept entries from `first` up to, but not including, `end`."""

    first: Position
    entries: Sequence[StoredEntry]
    end: Position


class CompactedView:
    """The compaction of one topic, as stored in PostgreSQL.

    `stored` is None before the first run, and after the compaction was deleted. While `stored.generation` is 0, readers
    get only the log.
    """

    def __init__(
        self, topic_id: int, stored: StoredCompaction | None, pool: ConnectionPool, *, max_message_bytes: int
    ) -> None:
        self._topic_id = topic_id
        self._pool = pool
        self._max_message_bytes = max_message_bytes
        self.stored = stored
        self.counters = CompactionCounters()
        self.is_running = False  # Also true while a run waits for its turn
        # Without this lock, two changes of the compaction could choose the same run number.
        self.changing = asyncio.Lock()

    @property
    def horizon(self) -> Position | None:
        """The last position that this view covers; None if readers get only the log."""
        stored = self.stored
        return None if stored is None or not stored.generation else stored.horizon.position

    @property
    def trim_limit(self) -> Position | None:
        """The last position that may be trimmed; None if there is no limit."""
        return None if self.stored is None else self.stored.horizon.position

    async def read(self, first: Position) -> ReadPage:
        """Read one page of kept entries, starting at `first`. Safe to cancel.

        If no kept entry is left, the page is empty and ends after the horizon. If the compaction was deleted, the page
        is empty and ends at `first`.
        """
        found = await repeat_until_done(
            self._pool,
            lambda c: store.read(c, self._topic_id, first=first, most=_PAGE_ENTRIES, more_bytes=_PAGE_BYTES),
            what="reading a compacted topic",
        )
        if found is None:
            return ReadPage(first, (), first)
        if not found.entries:
            return ReadPage(first, (), _after(found.horizon))
        last = found.entries[-1]
        end = Position(last.ledger_id, last.entry_id + 1)
        return ReadPage(first, verified(found.entries), end)

    async def last_message(self) -> tuple[StoredEntry, int] | None:
        """Return the last kept entry and the index of its last kept message; None if there is no kept entry.

        The index is -1 if the entry is not a batch.
        """
        entry = await repeat_until_done(
            self._pool,
            lambda c: store.last(c, self._topic_id),
            what="reading the last entry of a compacted topic",
        )
        if entry is None:
            return None
        return entry, last_kept_index(entry, max_message_bytes=self._max_message_bytes)

    async def first_since(self, time_ms: int) -> Position | None:
        """Return the position of the first kept entry appended at or after `time_ms`; None if no such entry exists."""
        return await repeat_until_done(
            self._pool,
            lambda c: store.first_since(c, self._topic_id, time_ms),
            what="searching a compacted topic by time",
        )


def _after(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id + 1)
