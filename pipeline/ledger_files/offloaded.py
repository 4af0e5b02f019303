"""Read entries of offloaded ledgers from their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pipeline.database import Connection
from pipeline.errors import InvalidOption, LedgerFileMissing
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.queries import query

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.ledger_files.rows import EntryRow

__all__ = ["OffloadedEntries"]

T = TypeVar("T")

# Little, because a task reads forward, and planning a read probes only a few row groups.
_CACHE_BYTES: Final = 4 << 20


class OffloadedEntries:
    """Reads entries of offloaded ledgers. A ledger may be offloaded or trimmed at any moment."""

    def __init__(self, connection: Connection, url: str) -> None:
        """`url` is the option offloadUrl. It may be empty as long as no ledger of the read is offloaded."""
        self._connection = connection
        self._url = url
        self._files = LedgerFiles(url, cache_bytes=_CACHE_BYTES)
        self._names: dict[int, str] = {}  # ledger → file

    def window(self, ledger_id: int, first: int, last: int, *, more_bytes: int) -> list[EntryRow] | None:
        """Return entries `first` to `last`, or fewer: those after the first have at most `more_bytes` together.

        None if the ledger is not offloaded. Raises OffloadUnavailable, and InvalidOption if the option is missing.
        """
        return self._ask(ledger_id, lambda name: self._files.read(name, first, last, more_bytes=more_bytes))

    def entry(self, ledger_id: int, entry_id: int) -> EntryRow | None:
        """Return one entry without its data. None if the entry is not in a file. Raises the errors of `window`."""
        return self._ask(ledger_id, lambda name: self._files.entry(name, entry_id))

    def _ask(self, ledger_id: int, call: Callable[[str], T]) -> T | None:
        name = self._names.get(ledger_id)
        if name is None:
            row = self._connection.execute(query("file"), (ledger_id,)).fetchone()
            if row is None or row[0] is None:
                return None
            name = self._names[ledger_id] = str(row[0])
        if not self._url:
            raise InvalidOption(
                f"ledger {ledger_id} is offloaded: set option offloadUrl to the VELA_OFFLOAD_URL of the broker"
            )
        try:
            return call(name)
        except LedgerFileMissing:
            row = self._connection.execute(query("file"), (ledger_id,)).fetchone()
            if row is not None and row[0] == name:
                raise  # the ledger still has this file: it was lost, not trimmed
            del self._names[ledger_id]
            return None
