"""A cache of the newest and the recently read entries of all topics.

The entries that were added first leave the cache first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.core.entry import StoredEntry

__all__ = ["EntryCache", "TopicEntries"]

# Memory that an entry takes in addition to its data
ENTRY_OVERHEAD_BYTES = 600

TopicEntries = dict[int, dict[int, StoredEntry]]  # Entries by ledger id and entry id


class EntryCache:
    """The cache of all topics. `budget_bytes` limits its size, including overhead."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._size_bytes = 0
        self._arrivals: deque[tuple[dict[int, StoredEntry], int, int]] = deque()

    @property
    def size_bytes(self) -> int:
        """The size of the cached entries, including overhead."""
        return self._size_bytes

    def add(self, topic: TopicEntries, entries: Iterable[StoredEntry]) -> None:
        """Add those entries of a topic that are not yet in the cache."""
        arrivals = self._arrivals
        for entry in entries:
            ledger_id, entry_id = entry.ledger_id, entry.entry_id
            ledger = topic.get(ledger_id)
            if ledger is None:
                ledger = topic[ledger_id] = {}
            if entry_id in ledger:
                continue
            ledger[entry_id] = entry
            size_bytes = len(entry.data) + ENTRY_OVERHEAD_BYTES
            self._size_bytes += size_bytes
            arrivals.append((ledger, entry_id, size_bytes))
            while self._size_bytes > self._budget_bytes:
                oldest, entry_id, size_bytes = arrivals.popleft()
                oldest.pop(entry_id, None)
                self._size_bytes -= size_bytes
