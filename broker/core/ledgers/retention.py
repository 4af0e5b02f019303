"""Which ledgers of a topic may go (semantics 2.6): whole ones, oldest first, up to the first that must stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.core.ledgers.ledger import LedgerInfo

__all__ = ["Retention", "TrimLimits", "trimmable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much of what everybody acked is kept. A side of -1 never lets go, one of 0 does at once."""

    time_ms: int  # age of a ledger's youngest entry
    size_bytes: int  # of all ledgers of the topic together

    def lets_go(self, ledger: LedgerInfo, *, kept_bytes: int, now_ms: int) -> bool:
        """Whether this ledger, the oldest of `kept_bytes`, is beyond the time or the size."""
        if not ledger.entries:
            return True
        return (0 <= self.time_ms < now_ms - ledger.last_append_ms) or 0 <= self.size_bytes <= kept_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimLimits:
    """What of a topic is still needed, counted in entries since the topic began, trimmed ones included."""

    acked_entries: int | None  # at or below every durable mark-delete; None = no durable subscription
    pinned_entries: int | None = (
        None  # below what an undo window or a bookmark pins; None = nothing is pinned
    )
    pinned_bytes: int = (
        -1
    )  # what is merely pinned goes while the topic has more than this; -1 = no such limit


def trimmable(ledgers: Sequence[LedgerInfo], *, retention: Retention, limits: TrimLimits, now_ms: int) -> int:
    """How many of the oldest ledgers may go. The open one and what follows it stay.

    A last ledger that was trimmed stays as an empty one, so it is not counted again.
    """
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
