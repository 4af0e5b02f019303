"""Rows of entries in the binary format of PostgreSQL's COPY."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg

from broker.core.entry import StoredEntry
from broker.storage.log.pieces import PAGE_BYTES, divided

__all__ = ["CopyRows", "copy_rows", "entries_stream", "rest_stream"]

Bytes = bytes | memoryview

_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_ENTRY: Final = struct.Struct("!h" + "iq" * 6 + "ii" * 3 + "ih" + "i")
_ENTRY_WITHOUT_KEY: Final = struct.Struct("!h" + "iq" * 6 + "ii" * 2 + "i" + "ih" + "i")
_PIECE: Final = struct.Struct("!h" + "iq" * 2 + "ii" + "i")


@dataclass(frozen=True, slots=True)
class CopyRows:
    """The rows of one topic.

    Bytes that do not fit into an entry's own row go into rows of a second table, called `rest`. Such a row is in
    `pages` if it fills a page of PostgreSQL, and otherwise in `parts`.
    """

    entries: list[Bytes] = field(default_factory=list)
    pages: list[Bytes] = field(default_factory=list)
    parts: list[Bytes] = field(default_factory=list)


def copy_rows(entries: Sequence[StoredEntry]) -> CopyRows:
    """Pack entries into rows. Raises psycopg.DataError if a number is too large for its column."""
    rows = CopyRows()
    try:
        for entry in entries:
            _add(rows, entry)
    except struct.error as error:
        raise psycopg.DataError(f"a number of an entry does not fit into its column: {error}") from error
    return rows


def entries_stream(topics: Iterable[CopyRows]) -> bytes:
    """Return the bytes that COPY reads into the table of entries."""
    return b"".join((_HEAD, *(part for rows in topics for part in rows.entries), _END))


def rest_stream(topics: Sequence[CopyRows]) -> bytes:
    """Return the bytes that COPY reads into the table `rest`.

    Rows that fill a page come first, so that COPY leaves few pages partly empty.
    """
    pages = (part for rows in topics for part in rows.pages)
    parts = (part for rows in topics for part in rows.parts)
    return b"".join((_HEAD, *pages, *parts, _END))


def _add(rows: CopyRows, entry: StoredEntry) -> None:
    (
        ledger_id,
        entry_id,
        messages,
        flags,
        key_hash,
        deliver_at_ms,
        append_ms,
        messages_through,
        bytes_through,
        data,
    ) = entry
    first, rest = divided(data)
    numbers = (
        11,
        *(8, ledger_id, 8, entry_id, 8, append_ms, 8, deliver_at_ms, 8, messages_through, 8, bytes_through),
        *(4, messages, 4, len(data) - len(first)),
    )
    if key_hash is None:
        head = _ENTRY_WITHOUT_KEY.pack(*numbers, -1, 2, flags, len(first))
    else:
        head = _ENTRY.pack(*numbers, 4, key_hash, 2, flags, len(first))
    rows.entries.extend((head, first))
    for number, piece in enumerate(rest):
        head = _PIECE.pack(4, 8, ledger_id, 8, entry_id, 4, number, len(piece))
        (rows.pages if len(piece) == PAGE_BYTES else rows.parts).extend((head, piece))
