"""Reading ranges of a topic's log, in bounded windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.database import Connection
from pipeline.errors import EntriesMissing
from pipeline.planning import EntryRange
from pipeline.queries import query

__all__ = ["read_entries"]

WINDOW_ENTRIES: Final = 1_000
WINDOW_BYTES: Final = 4 << 20  # after the first entry of a window


def read_entries(
    connection: Connection,
    part: EntryRange,
    *,
    window_entries: int = WINDOW_ENTRIES,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[tuple[int, bytes]]:
    """(entry id, stored bytes) of every entry of the range, in order.

    Each window is a statement and a snapshot of its own; that is enough, since what is committed never changes.
    Holds one window at a time. Raises EntriesMissing at the first entry that is not there; psycopg.Error.
    """
    wanted = part.first
    cursor = connection.cursor(binary=True)
    while wanted <= part.last:
        window = {
            "ledger_id": part.ledger_id,
            "first": wanted,
            "last": min(part.last, wanted + window_entries - 1),
            "budget_bytes": window_bytes,
        }
        rows = cursor.execute(query("entries"), window, prepare=True).fetchall()
        if not rows:
            raise _missing(part, wanted)
        for entry_id, data in rows:
            if entry_id != wanted:
                raise _missing(part, wanted)
            yield entry_id, data
            wanted += 1


def _missing(part: EntryRange, entry_id: int) -> EntriesMissing:
    return EntriesMissing(
        f"entry {part.ledger_id}:{entry_id} of {part.topic} was there when the read was planned and is not now:"
        " retention trimmed it, or the log is damaged; run the job again, with longer retention if it persists"
    )
