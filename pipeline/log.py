"""Read ranges of a topic's log in windows of bounded size."""

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
    """Yield entry id and stored bytes of every entry in the range, in order.

    Each window is a separate statement with its own snapshot, which is enough because committed entries never change.
    One window is in memory at a time. Raises EntriesMissing at the first missing entry, and psycopg.Error.
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
        f"entry {part.ledger_id}:{entry_id} of {part.topic} existed when the read was planned and is missing now:"
        " retention trimmed it, or the log is damaged; run the job again, with longer retention if this repeats"
    )
