"""A consumer's counts so far, and rates between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ConsumerStatistics", "rate_per_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """Counts since the consumer was created, and how full its queue is now.

    With several topics: the sum over the current topics.
    """

    messages_received: int  # taken by the application
    bytes_received: int  # bytes of their payloads
    messages_delivered: int  # messages from the broker; each message of a batch counts
    messages_waiting: int  # in the queue
    permits_available: int  # room in the queue; 0 or less: the queue is full and no call is receiving
    receives_failed: int  # discarded entries and cancelled receives
    entries_discarded: Mapping[str, int]  # discarded entries, by reason
    entries_stale: int  # entries from an earlier connection or epoch, or during closing

    @staticmethod
    def total(parts: list[ConsumerStatistics], *, waiting: int) -> ConsumerStatistics:
        """Return the sum for consumers that share one queue, which has `waiting` messages."""
        discarded: dict[str, int] = {}
        for part in parts:
            for reason, count in part.entries_discarded.items():
                discarded[reason] = discarded.get(reason, 0) + count
        return ConsumerStatistics(
            messages_received=sum(part.messages_received for part in parts),
            bytes_received=sum(part.bytes_received for part in parts),
            messages_delivered=sum(part.messages_delivered for part in parts),
            messages_waiting=waiting,
            permits_available=sum(part.permits_available for part in parts) - waiting,
            receives_failed=sum(part.receives_failed for part in parts),
            entries_discarded=discarded,
            entries_stale=sum(part.entries_stale for part in parts),
        )


def rate_per_s(before: int, now: int, elapsed_s: float) -> float:
    """Return a rate per second, from two readings of a count.

    The result is 0 if the count went back, because a topic left the consumer and took its counts along.
    """
    return max(0, now - before) / elapsed_s if elapsed_s > 0 else 0.0
