"""Check backlog quotas, and find how far an eviction moves a cursor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.ledger import LedgerMap
from broker.core.ledgers.message_index import IndexMissing, MessageIndex
from broker.core.position import Position

__all__ = ["Backlog", "Breach", "QuotaKind", "breach_of", "eviction_target"]

_KEPT_OF_TEN = 9


class QuotaKind(StrEnum):
    """The quantity that a quota limits. The values are Pulsar's names."""

    SIZE = "destination_storage"
    AGE = "message_age"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """One subscription's backlog."""

    subscription: str
    size_bytes: int
    # Age of the oldest unacked message. If its ledger's age is within the quota, this is the ledger's age instead,
    # which is known without a read. No message is older than its ledger.
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """An exceeded quota, and the subscription with the largest excess."""

    kind: QuotaKind
    subscription: str
    is_now: int  # Bytes or milliseconds
    limit: int

    def __str__(self) -> str:
        if self.kind is QuotaKind.SIZE:
            return (
                f"subscription {self.subscription} has a backlog of {self.is_now} bytes, the quota is {self.limit}"
                " (policy backlog_quota_bytes)"
            )
        return (
            f"the oldest message that subscription {self.subscription} has not acked is {self.is_now} ms old,"
            f" the quota is {self.limit} (policy backlog_quota_ms)"
        )


def breach_of(backlogs: Iterable[Backlog], *, quota_bytes: int, quota_ms: int) -> Breach | None:
    """Return the exceeded quota, or None. A limit of -1 switches a quota off."""
    waiting = [each for each in backlogs if each.size_bytes > 0]
    if not waiting:
        return None
    largest = max(waiting, key=lambda each: each.size_bytes)
    if 0 <= quota_bytes < largest.size_bytes:
        return Breach(
            kind=QuotaKind.SIZE,
            subscription=largest.subscription,
            is_now=largest.size_bytes,
            limit=quota_bytes,
        )
    oldest = max(waiting, key=lambda each: each.age_ms)
    if 0 <= quota_ms < oldest.age_ms:
        return Breach(
            kind=QuotaKind.AGE, subscription=oldest.subscription, is_now=oldest.age_ms, limit=quota_ms
        )
    return None


def kept_of(limit: int) -> int:
    """Return the backlog that an eviction leaves, in the unit of `limit`."""
    return limit * _KEPT_OF_TEN // 10


def eviction_target(cursor: Cursor, ledgers: LedgerMap, index: MessageIndex, *, leave_bytes: int) -> Position:
    """Return the lowest mark-delete position that leaves at most `leave_bytes` of backlog.

    Raises IndexMissing if a required part of `index` is not in memory.
    """
    moved = Cursor(ledgers, index, cursor.snapshot())
    while (excess := moved.backlog_bytes - leave_bytes) > 0:
        # The backlog does not shrink when the cursor passes an acked entry, so one step may not be enough.
        target = _after_bytes(ledgers, index, moved.mark_delete, excess)
        moved.move_mark_delete(target)
    return moved.mark_delete


def _after_bytes(ledgers: LedgerMap, index: MessageIndex, after: Position, size_bytes: int) -> Position:
    wanted = _bytes_through(index, after) + size_bytes
    for ledger in ledgers:
        if not ledger.entries or ledger.bytes_before + ledger.size_bytes < wanted:
            continue
        low, high = 0, ledger.entries - 1
        while low < high:
            middle = (low + high) // 2
            if _bytes_through(index, Position(ledger.ledger_id, middle)) < wanted:
                low = middle + 1
            else:
                high = middle
        return max(Position(ledger.ledger_id, low), ledgers.next_after(after))
    return ledgers.last_position()


def _bytes_through(index: MessageIndex, position: Position) -> int:
    found = index.bytes_through(position)
    if found is None:
        raise IndexMissing(index.unknown(position))
    return found
