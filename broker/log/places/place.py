"""The interface for reading a ledger from a file, or from a segment (a pair of tables in PostgreSQL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from broker.core.errors import PersistenceFailed

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["LedgerPlace", "PlaceGone"]


class PlaceGone(PersistenceFailed):
    """The segment or file of a ledger does not exist. The ledger may have been moved or trimmed."""


class LedgerPlace(Protocol):
    """The place that stores one ledger's entries. Places must compare by value.

    Every method raises PlaceGone if the segment or file does not exist. All methods are safe to repeat and to cancel.
    """

    async def read(self, first: int, last: int, *, more_bytes: int) -> list[StoredEntry]:
        """Return entries from `first` to at most `last`.

        The entries after `first` have at most `more_bytes` of data in total. Returns an empty list if entry `first` is
        not stored.
        """

    async def read_some(self, entry_ids: Sequence[int]) -> list[StoredEntry]:
        """Return the stored entries with these ids, ordered by id."""

    async def read_counts(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Return the id, cumulative messages and cumulative bytes of each stored entry from `first` to `last`."""

    async def append_ms(self, entry_id: int) -> int | None:
        """Return an entry's append time in Unix milliseconds, or None if the entry is not stored."""

    async def messages_through(self, entry_id: int) -> int | None:
        """Return the topic's message count up to and including an entry, or None if the entry is not stored."""
