"""Read ranges of a topic's log in windows of bounded size."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.database import Connection
from pipeline.errors import EntriesMissing
from pipeline.ledger_files.offloaded import OffloadedEntries
from pipeline.queries import query
from pipeline.source.ranges import EntryRange

__all__ = ["EntryRow", "read_entries"]

logger = logging.getLogger(__name__)

WINDOW_ENTRIES: Final = 5_000
WINDOW_BYTES: Final = 8 << 20
_TYPES: Final = ("int8", "int8", "int8", "bytea")


class EntryRow(NamedTuple):
    """A stored entry."""

    entry_id: int
    bytes_through: int  # of the topic, this entry included
    append_ms: int
    data: bytes


_NOTHING: Final = EntryRow(-1, 0, 0, b"")


def read_entries(
    connection: Connection,
    part: EntryRange,
    *,
    offload_url: str = "",
    must_be_whole: bool = True,
    window_entries: int = WINDOW_ENTRIES,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[EntryRow]:
    """Yield every entry in the range, in order.

    Each window is a separate statement with its own snapshot, which is enough because committed entries never change.
    A window is read whole before its first entry is yielded, so that no snapshot stays open while Spark uses the entry.
    Raises EntriesMissing at the first missing entry, the errors of `OffloadedEntries.window`, and psycopg.Error. With
    `must_be_whole` False, entries that retention trimmed are logged and left out, but an entry missing from a ledger
    that still exists raises.
    """
    wanted, bytes_before = part.first, part.bytes_before
    offloaded = OffloadedEntries(connection, offload_url)
    while wanted <= part.last:
        rows = _window(connection, part, wanted, window_entries, bytes_before + window_bytes)
        if not rows:
            last = min(part.last, wanted + window_entries - 1)
            found = offloaded.window(part.ledger_id, wanted, last, more_bytes=window_bytes)
            rows = [
                EntryRow(each.entry_id, each.cumulative_bytes, each.append_ms, each.data)
                for each in found or ()
            ]
        for row in rows or [_NOTHING]:
            if row.entry_id != wanted:
                if not must_be_whole and _is_trimmed(connection, part):
                    logger.warning(
                        "entries %s:%s-%s of %s were trimmed after the read was planned; failOnDataLoss is false, so"
                        " they are left out",
                        *(part.ledger_id, wanted, part.last, part.topic),
                    )
                    return
                raise EntriesMissing(
                    f"entry {part.ledger_id}:{wanted} of {part.topic} existed when the read was planned and is missing"
                    " now: retention trimmed it, or the log is damaged; run the job again, with longer retention if"
                    " this repeats"
                )
            yield row
            wanted, bytes_before = wanted + 1, row.bytes_through


def _window(
    connection: Connection, part: EntryRange, first: int, entries: int, limit_bytes: int
) -> list[EntryRow]:
    window = {
        "ledger_id": part.ledger_id,
        "first": first,
        "last": min(part.last, first + entries - 1),
        "limit_bytes": limit_bytes,
    }
    with connection.cursor().copy(query("entries"), window) as copy:
        copy.set_types(_TYPES)
        return [EntryRow(*row) for row in copy.rows()]


def _is_trimmed(connection: Connection, part: EntryRange) -> bool:
    row = connection.execute(query("is_trimmed"), (part.ledger_id,)).fetchone()
    return row is not None and bool(row[0])
