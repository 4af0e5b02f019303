"""The newest and the recently read entries of all topics, cached up to a limit in bytes.

New entries are added before any subscription is woken, so that consumers that keep up do not read PostgreSQL. Entries
that a subscription with a backlog reads are added too, so that subscriptions at nearby positions share the read. The
oldest arrivals are evicted first. Most entries are wanted soon after they arrive, and a subscription that is far behind
reads a whole range at once anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.core.entry import StoredEntry

__all__ = ["EntryCache", "TopicEntries"]

# For an entry's tuple, its ints, and the references to it. If they were not counted, small entries would take six times
# the budget.
ENTRY_OVERHEAD_BYTES = 600

TopicEntries = dict[int, dict[int, StoredEntry]]  # ledger → entry id → entry


class EntryCache:
    """Entries by topic, ledger and entry id. `budget_bytes` limits the size of their data and their overhead."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._size_bytes = 0
        self._arrivals: deque[tuple[dict[int, StoredEntry], int, int]] = deque()

    @property
    def size_bytes(self) -> int:
        """The data of the cached entries and their overhead, in bytes."""
        return self._size_bytes

    def add(self, topic: TopicEntries, entries: Iterable[StoredEntry]) -> None:
        """Add entries of a topic. Leaves out those that are in the cache already."""
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
