"""Decide which ledgers of a topic can be trimmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.core.ledgers.ledger import LedgerInfo

__all__ = ["Retention", "TrimLimits", "trimmable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits within which a topic keeps acked entries. -1 means no limit, 0 means keep none."""

    time_ms: int  # Trim a ledger when its youngest entry is older than this
    # Trim the oldest ledger while the topic has at least this size. The size includes unacked entries.
    size_bytes: int

    def lets_go(self, ledger: LedgerInfo, *, kept_bytes: int, now_ms: int) -> bool:
        """Return whether retention allows the broker to trim a topic's oldest ledger.

        `kept_bytes` is the total size of this ledger and all later ledgers.
        """
        if not ledger.entries:
            return True
        return (0 <= self.time_ms < now_ms - ledger.last_append_ms) or 0 <= self.size_bytes <= kept_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimLimits:
    """The limits on trimming a topic. None means no limit. The numbers of entries include trimmed entries.

    A bookmark is a named position to which cursors can be reset.
    """

    # Number of oldest entries that no durable subscription, compaction or deduplication needs.
    acked_entries: int | None
    # Number of oldest entries that no undo or bookmark needs.
    pinned_entries: int | None = None
    pinned_bytes: int = -1  # In a topic larger than this, undo and bookmarks keep nothing; -1 means no limit


def trimmable(ledgers: Sequence[LedgerInfo], *, retention: Retention, limits: TrimLimits, now_ms: int) -> int:
    """Return how many of the oldest ledgers can be trimmed. An open ledger and an empty last ledger stay."""
    kept_bytes = sum(ledger.size_bytes for ledger in ledgers)
    for count, ledger in enumerate(ledgers):
        end = ledger.entries_before + ledger.entries
        if not ledger.sealed or (not ledger.entries and count == len(ledgers) - 1):
            return count
        if limits.acked_entries is not None and end > limits.acked_entries:
            return count
        if not retention.lets_go(ledger, kept_bytes=kept_bytes, now_ms=now_ms):
            return count
        is_pinned = limits.pinned_entries is not None and end > limits.pinned_entries
        if is_pinned and not 0 <= limits.pinned_bytes < kept_bytes:
            return count
        kept_bytes -= ledger.size_bytes
    return len(ledgers)
