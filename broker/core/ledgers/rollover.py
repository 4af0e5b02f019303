"""Decide when the next append needs a new ledger."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.ledgers.ledger import LedgerInfo

__all__ = ["RolloverPolicy", "must_roll"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloverPolicy:
    """The limits at which an open ledger is full. None means no limit."""

    max_entries: int | None
    max_bytes: int | None
    min_age_ms: int  # A ledger younger than this is never full
    max_age_ms: int | None


def must_roll(info: LedgerInfo, policy: RolloverPolicy, now_ms: int) -> bool:
    """Return whether a ledger is full. An empty ledger is never full."""
    if not info.entries:
        return False
    age_ms = now_ms - info.opened_ms
    if age_ms < policy.min_age_ms:
        return False
    return (
        (policy.max_entries is not None and info.entries >= policy.max_entries)
        or (policy.max_bytes is not None and info.size_bytes >= policy.max_bytes)
        or (policy.max_age_ms is not None and age_ms >= policy.max_age_ms)
    )
