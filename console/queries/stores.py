"""Read entries from the files of offloaded ledgers.

The rows have the same fields as the rows that log.sql reads from PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from broker.conf import broker_settings
from pipeline.errors import LedgerFileDamaged, LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.rows import EntryRow

__all__ = ["FileStore", "Store", "rows_in_file", "store_of"]

_PAUSE_S: Final = 5.0
_CACHE_BYTES: Final = 16 * 1024 * 1024
_MAY_HAVE_OTHER_KEYS: Final = 33  # The flags of a batch (1) and of an ordering key (32)

Row = dict[str, Any]
_away: WeakKeyDictionary[LedgerFiles, tuple[float, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """The file of an offloaded ledger."""

    name: str
    ledger_id: int


Store = int | FileStore  # A segment's id, or a file


def store_of(*, ledger_id: int, segment_id: int | None, file_name: str | None) -> Store | None:
    """Return where a ledger's entries are stored. Returns None if the ledger was trimmed."""
    return FileStore(name=file_name, ledger_id=ledger_id) if file_name is not None else segment_id


def rows_in_file(name: str, store: FileStore, parameters: Mapping[str, Any]) -> list[Row]:
    """Answer the query `name` of log.sql from the file of one ledger.

    Raises OffloadUnavailable if the file cannot be read. The subclass LedgerFileMissing means that the file does not
    exist. For 5 seconds after the storage failed, every call raises OffloadUnavailable at once, because waiting calls
    could use up all threads.
    """
    files = _files()
    until_s, trouble = _away.get(files, (0.0, ""))
    if time.monotonic() < until_s:
        raise OffloadUnavailable(trouble)
    try:
        return [{"ledger_id": store.ledger_id, **row} for row in _QUERIES[name](files, store, parameters)]
    except (LedgerFileDamaged, LedgerFileMissing):
        raise  # One bad file must not block the other files
    except OffloadUnavailable as error:
        _away[files] = (time.monotonic() + _PAUSE_S, str(error))
        raise


@cache
def _files() -> LedgerFiles:
    return LedgerFiles(broker_settings().offload_url, cache_bytes=_CACHE_BYTES)


def _at(files: LedgerFiles, store: FileStore, parameters: Mapping[str, Any]) -> list[Row]:
    found = [files.entry(store.name, entry_id) for entry_id in _asked(store, parameters)]
    return [
        {
            "entry_id": row.entry_id,
            "messages": row.messages,
            "append_ms": row.append_ms,
            "cumulative_messages": row.cumulative_messages,
        }
        for row in found
        if row is not None
    ]


def _peek(files: LedgerFiles, store: FileStore, parameters: Mapping[str, Any]) -> list[Row]:
    rows = files.read_some(store.name, _asked(store, parameters))
    return [_with_data(row, parameters["most_bytes"]) for row in rows]


def _first_after(files: LedgerFiles, store: FileStore, parameters: Mapping[str, Any]) -> list[Row]:
    times_ms = dict(zip(parameters["ledgers"], parameters["times_ms"], strict=True))
    entry_id = files.first_after(store.name, times_ms[store.ledger_id])
    return [] if entry_id is None else [{"entry_id": entry_id}]


def _piece(files: LedgerFiles, store: FileStore, parameters: Mapping[str, Any]) -> list[Row]:
    slots: Collection[int] | None = parameters["slots"]
    chosen: list[int] = []
    ranges = zip(*(parameters[each] for each in ("ledgers", "firsts", "lasts", "ends")), strict=True)
    for ledger_id, first, last, end in ranges:
        if ledger_id == store.ledger_id:
            chosen += [
                row.entry_id
                for row in files.read_index(store.name, first, last)
                if _may_have(row, slots) or row.entry_id == end
            ]
    chosen.sort(reverse=parameters["sign"] < 0)
    del chosen[parameters["limit"] :]
    found: list[Row] = []
    before_bytes = 0
    for entry_id in chosen:
        if before_bytes >= parameters["piece_bytes"]:
            break
        for row in files.read_some(store.name, [entry_id]):
            is_large = len(row.data) > parameters["most_bytes"]
            found.append(_with_data(row, parameters["head_bytes" if is_large else "most_bytes"]))
            before_bytes += len(row.data)
    return [{**row, "picked": len(chosen)} for row in found]


def _asked(store: FileStore, parameters: Mapping[str, Any]) -> list[int]:
    places: Sequence[tuple[int, int]] = list(zip(parameters["ledgers"], parameters["entries"], strict=True))
    return [entry_id for ledger_id, entry_id in places if ledger_id == store.ledger_id]


def _may_have(row: EntryRow, slots: Collection[int] | None) -> bool:
    return (
        slots is None
        or row.key_hash is None
        or row.key_hash in slots
        or bool(row.flags & _MAY_HAVE_OTHER_KEYS)
    )


def _with_data(row: EntryRow, most_bytes: int) -> Row:
    return {
        "entry_id": row.entry_id,
        "messages": row.messages,
        "append_ms": row.append_ms,
        "deliver_at_ms": row.deliver_at_ms,
        "size_bytes": len(row.data),
        "data": row.data[:most_bytes],
    }


_QUERIES: Final[Mapping[str, Callable[[LedgerFiles, FileStore, Mapping[str, Any]], list[Row]]]] = {
    "at": _at,
    "peek": _peek,
    "first_after": _first_after,
    "piece": _piece,
}
