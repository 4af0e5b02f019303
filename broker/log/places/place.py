"""The interface for reading a ledger from a file, or from a segment (a set of tables in PostgreSQL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from broker.core.errors import PersistenceFailed

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["LedgerPlace", "PlaceGone"]


class PlaceGone(PersistenceFailed):
    """A segment or a file does not exist. The ledger may have been moved or trimmed."""


class LedgerPlace(Protocol):
    """The place of one ledger's entries. Two places are equal if they are the same segment or file.

    Every method raises PlaceGone if the place does not exist. All methods are safe to repeat and to cancel.
    """

    async def read(self, first: int, last: int, *, more_bytes: int) -> list[StoredEntry]:
        """Return entries `first` to `last`, with at most `more_bytes` of data after the first entry.

        Returns an empty list if entry `first` is not stored.
        """

    async def read_some(self, entry_ids: Sequence[int]) -> list[StoredEntry]:
        """Return the stored entries with these ids, in the order of their ids."""

    async def read_counts(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Return (entry id, cumulative messages, cumulative bytes) of the stored entries from `first` to `last`."""

    async def append_ms(self, entry_id: int) -> int | None:
        """Return when an entry was appended, in Unix milliseconds; None if the entry is not stored."""

    async def messages_through(self, entry_id: int) -> int | None:
        """Return the topic's cumulative messages up to and including an entry; None if the entry is not stored."""
