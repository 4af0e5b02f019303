"""Read a compacted topic for readers that ask for it: the entries that compaction kept, up to its horizon.

Above the horizon, readers get the log itself.
"""

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
    """All entries that compaction kept from `first` up to but not including `end`."""

    first: Position
    entries: Sequence[StoredEntry]
    end: Position


class CompactedView:
    """The compaction of one topic, as stored in PostgreSQL.

    `stored` None = no run has ever begun, or the compaction was deleted. `stored.generation` 0 = readers still get only
    the log.

    Only the compactor changes this object. Readers get the entries of a run after one statement has published them.
    """

    def __init__(
        self, topic_id: int, stored: StoredCompaction | None, pool: ConnectionPool, *, max_message_bytes: int
    ) -> None:
        self._topic_id = topic_id
        self._pool = pool
        self._max_message_bytes = max_message_bytes
        self.stored = stored
        self.counters = CompactionCounters()
        self.is_running = False  # a compaction runs, or waits for its turn
        # Held while the horizon or the number of a run changes, so that no two changes choose the same number.
        self.changing = asyncio.Lock()

    @property
    def horizon(self) -> Position | None:
        """The last position that this view covers; None = readers get only the log."""
        stored = self.stored
        return None if stored is None or not stored.generation else stored.horizon.position

    @property
    def trim_limit(self) -> Position | None:
        """The position above which no entry may be trimmed yet; None = no limit."""
        return None if self.stored is None else self.stored.horizon.position

    async def read(self, first: Position) -> ReadPage:
        """Read the kept entries from `first` on, up to the limits of a page.

        An empty page ends after the horizon if no kept entry is left, or at `first` if the compaction was deleted. Safe
        to cancel.
        """
        found = await repeat_until_done(
            self._pool,
            lambda c: store.read(c, self._topic_id, first=first, most=_PAGE_ENTRIES, more_bytes=_PAGE_BYTES),
            what="reading a compacted topic",
        )
        if found is None:
            return ReadPage(first, (), first)  # the compaction was deleted meanwhile
        if not found.entries:
            return ReadPage(first, (), _after(found.horizon))
        last = found.entries[-1]
        end = Position(last.ledger_id, last.entry_id + 1)
        return ReadPage(first, verified(found.entries), end)

    async def last_message(self) -> tuple[StoredEntry, int] | None:
        """Return the last kept entry and the index of the last kept message in it, or -1 if the entry is not a batch.

        Returns None if there is no kept entry.
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
        """Return the position of the first kept entry appended at or after `time_ms`; None if there is none."""
        return await repeat_until_done(
            self._pool,
            lambda c: store.first_since(c, self._topic_id, time_ms),
            what="searching a compacted topic by time",
        )


def _after(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id + 1)
