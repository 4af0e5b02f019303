"""A topic's log in memory, for planning without a database."""

from __future__ import annotations

from pipeline.source.ranges import EntryRange
from pipeline.source.topic_logs import EntryIndex, EntryTotals, StoredLedger, StoredTopic, TopicLog

__all__ = ["MemoryIndex", "emptied_log", "memory_log", "positions"]

FIRST_APPEND_MS = 1_000
BETWEEN_APPENDS_MS = 10


class MemoryIndex(EntryIndex):
    """An index that answers from a dict."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int], EntryTotals] = {}

    def totals(self, ledger_id: int, entry_id: int) -> EntryTotals:
        return self.entries[ledger_id, entry_id]


def memory_log(
    index: MemoryIndex,
    ledgers: list[list[tuple[int, int]]],
    *,
    name: str = "t",
    first_ledger: int = 10,
    messages_before: int = 0,
    bytes_before: int = 0,
) -> TopicLog:
    """Return a log with these entries. Each is (messages, bytes), and there is one every ten milliseconds."""
    stored: list[StoredLedger] = []
    messages, size_bytes, append_ms = messages_before, bytes_before, FIRST_APPEND_MS
    for ledger_id, entries in enumerate(ledgers, first_ledger):
        before = (messages, size_bytes)
        for entry_id, (entry_messages, entry_bytes) in enumerate(entries):
            messages += entry_messages
            size_bytes += entry_bytes
            index.entries[ledger_id, entry_id] = EntryTotals(append_ms, messages, size_bytes)
            last_append_ms = append_ms
            append_ms += BETWEEN_APPENDS_MS
        stored.append(
            StoredLedger(
                ledger_id,
                len(entries) - 1,
                *before,
                messages,
                size_bytes,
                last_append_ms if entries else 0,
            )
        )
    return TopicLog(topic=StoredTopic(first_ledger, name, -1), ledgers=tuple(stored))


def emptied_log(*, ledger_id: int, messages: int, name: str = "t") -> TopicLog:
    """Return a log after retention has trimmed all entries. Its last ledger stays, empty, and keeps the counts."""
    ledger = StoredLedger(ledger_id, -1, messages, 10 * messages, messages, 10 * messages, FIRST_APPEND_MS)
    return TopicLog(topic=StoredTopic(ledger_id, name, -1), ledgers=(ledger,))


def positions(ranges: list[EntryRange]) -> list[tuple[int, int]]:
    """Return the entries of the ranges, in order."""
    return [(part.ledger_id, entry) for part in ranges for entry in range(part.first, part.last + 1)]
