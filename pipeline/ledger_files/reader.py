"""Reads of offloaded ledgers: ranges and chosen entries, one row group at a time, through a cache of bounded size."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import LedgerFileDamaged, OffloadUnavailable
from pipeline.ledger_files.rows import MANIFEST_KEY, EntryRow, Manifest

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.ledger_files.storage import FileStorage

__all__ = ["LedgerFiles"]

_COUNTS: Final = ("entry_id", "cumulative_messages", "cumulative_bytes")
_FOOTERS: Final = 64  # kept in memory; one takes some tens of kilobytes


class _Footer:
    """A file's footer, with the first entry id of each row group. Entry ids begin at 0 and have no gaps."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata
        self.begins: list[int] = []
        self.entries = 0
        for number in range(metadata.num_row_groups):
            self.begins.append(self.entries)
            self.entries += metadata.row_group(number).num_rows

    def group_of(self, entry_id: int) -> int:
        return bisect_right(self.begins, entry_id) - 1


class LedgerFiles:
    """Reads files below one URL, from any thread. It blocks: never call it on an event loop.

    Every method raises OffloadUnavailable if the storage cannot be used. Every method that reads a file also raises
    LedgerFileMissing if there is no such file, and LedgerFileDamaged if its content is not what was written.
    """

    def __init__(self, url: str, *, cache_bytes: int) -> None:
        """Open nothing yet. `cache_bytes` limits the row groups kept in memory, as Arrow stores them."""
        self._url = url
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()  # guards the members below, and is not held while a file is read
        self._storage: FileStorage | None = None
        self._footers: OrderedDict[str, _Footer] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int, bool], pa.Table] = OrderedDict()
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes in the cache."""
        return self._size_bytes

    def read(self, name: str, first: int, last: int, *, more_bytes: int) -> list[EntryRow]:
        """Return entries `first` to `last`, or fewer: those after the first have at most `more_bytes` together."""
        found: list[EntryRow] = []
        left_bytes = more_bytes
        for table in self._tables(name, first, last, has_data=True):
            for row in _rows(table):
                if found:
                    left_bytes -= len(row.data)
                    if left_bytes < 0:
                        return found
                found.append(row)
        return found

    def read_some(self, name: str, entry_ids: Sequence[int]) -> list[EntryRow]:
        """Return the entries with these ids that exist, in the order of the ids."""
        footer = self._footer(name)
        known = sorted({each for each in entry_ids if 0 <= each < footer.entries})
        found: list[EntryRow] = []
        for number, group in groupby(known, footer.group_of):
            table = self._group(name, footer, number, has_data=True)
            begin = footer.begins[number]
            found += _rows(table.take([each - begin for each in group]))
        return found

    def read_index(self, name: str, first: int, last: int) -> list[EntryRow]:
        """Return entries `first` to `last` without their data."""
        return [
            row
            for table in self._tables(name, first, last, has_data=False)
            for row in _rows(table.drop_columns([each for each in table.column_names if each == "data"]))
        ]

    def read_counts(self, name: str, first: int, last: int) -> list[tuple[int, int, int]]:
        """Return (entry id, cumulative messages, cumulative bytes) of entries `first` to `last`."""
        found: list[tuple[int, int, int]] = []
        for table in self._tables(name, first, last, has_data=False):
            columns = [table.column(each).to_pylist() for each in _COUNTS]
            found += zip(*columns, strict=True)
        return found

    def entry(self, name: str, entry_id: int) -> EntryRow | None:
        """Return one entry without its data; None if there is none."""
        return next(iter(self.read_index(name, entry_id, entry_id)), None)

    def first_after(self, name: str, time_ms: int) -> int | None:
        """Return the id of the first entry that was stored at or after a time; None if all were stored before."""
        low, high = 0, self._footer(name).entries
        while low < high:
            middle = (low + high) // 2
            row = self.entry(name, middle)
            assert row is not None
            if row.append_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low if low < self._footer(name).entries else None

    def verify(self, name: str) -> Manifest:
        """Read the whole file, check its count and checksum, and return its manifest."""
        storage = self._opened()
        from pipeline.ledger_files.writer import verify

        return verify(storage, name)

    def delete(self, name: str) -> None:
        """Delete a file. Safe to repeat."""
        self._opened().delete(name)
        with self._lock:
            self._footers.pop(name, None)
            for key in [key for key in self._groups if key[0] == name]:
                self._size_bytes -= self._groups.pop(key).nbytes

    def _tables(self, name: str, first: int, last: int, *, has_data: bool) -> Iterator[pa.Table]:
        """Yield the parts of row groups that have the entries from `first` to `last`."""
        footer = self._footer(name)
        last = min(last, footer.entries - 1)
        while 0 <= first <= last:
            number = footer.group_of(first)
            begin = footer.begins[number]
            table = self._group(name, footer, number, has_data=has_data)
            part = table.slice(first - begin, last - first + 1)
            yield part
            first += len(part)

    def _footer(self, name: str) -> _Footer:
        with self._lock:
            if (known := self._footers.get(name)) is not None:
                self._footers.move_to_end(name)
                return known
        storage = self._opened()
        import pyarrow.parquet as pq

        with storage.reading(name) as source:
            metadata = pq.read_metadata(source)
        manifest = Manifest.from_json((metadata.metadata or {}).get(MANIFEST_KEY, b""), name)
        if not name.startswith(f"{manifest.topic_id}/{manifest.ledger_id}-"):
            raise LedgerFileDamaged(
                f"ledger file {name} has the entries of ledger {manifest.ledger_id}: restore the file of this name"
            )
        footer = _Footer(metadata)
        with self._lock:
            self._footers[name] = footer
            while len(self._footers) > _FOOTERS:
                self._footers.popitem(last=False)
        return footer

    def _group(self, name: str, footer: _Footer, number: int, *, has_data: bool) -> pa.Table:
        with self._lock:
            for key in ((name, number, True), (name, number, has_data)):
                if (known := self._groups.get(key)) is not None:
                    self._groups.move_to_end(key)
                    return known
        storage = self._opened()
        import pyarrow.parquet as pq

        with (
            storage.reading(name) as source,
            pq.ParquetFile(source, metadata=footer.metadata, page_checksum_verification=True) as file,
        ):
            columns = [name for name in file.schema_arrow.names if has_data or name != "data"]
            table = file.read_row_group(number, columns=columns, use_threads=False)
        self._keep((name, number, has_data), table)
        return table

    def _keep(self, key: tuple[str, int, bool], table: pa.Table) -> None:
        if table.nbytes > self._cache_bytes:
            return
        with self._lock:
            if key in self._groups:
                return  # another thread read it at the same time
            self._groups[key] = table
            self._size_bytes += table.nbytes
            while self._size_bytes > self._cache_bytes:
                self._size_bytes -= self._groups.popitem(last=False)[1].nbytes

    def _opened(self) -> FileStorage:
        """Return the storage. pyarrow is imported here, because only offloaded ledgers need it."""
        with self._lock:
            if self._storage is None:
                if not self._url:
                    raise OffloadUnavailable(
                        "a ledger is offloaded, but VELA_OFFLOAD_URL is not set: set it to where the ledger's file is"
                    )
                try:
                    from pipeline.ledger_files.storage import FileStorage
                except ModuleNotFoundError as error:
                    raise OffloadUnavailable(
                        f"{error.name} is not installed, and offloaded ledgers need it: in Vela's folder run"
                        " pip install '.[offload]'"
                    ) from None
                self._storage = FileStorage(self._url)
            return self._storage


def _rows(table: pa.Table) -> list[EntryRow]:
    from pipeline.ledger_files.columns import rows_of

    return rows_of(table)
