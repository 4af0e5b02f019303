"""A consumer's counts so far, and rates between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ConsumerStatistics", "rate_per_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """Counts since the consumer was made. A consumer of several topics has their sum."""

    messages_received: int  # taken by the application
    bytes_received: int  # their payloads
    messages_delivered: int  # come from the broker, those of a batch one by one
    messages_waiting: int  # in the queue
    permits_available: int  # room in it: 0 = it is full and nobody receives
    receives_failed: int  # entries thrown away, and receives that were interrupted
    entries_discarded: Mapping[str, int]  # entries thrown away, by reason; only reasons that occurred
    entries_stale: int  # come over a connection that is past

    @staticmethod
    def total(parts: list[ConsumerStatistics], *, waiting: int) -> ConsumerStatistics:
        """Return the sum for several consumers that share a queue with this many messages."""
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
    """Return a rate per second, from two readings of a count."""
    return (now - before) / elapsed_s if elapsed_s > 0 else 0.0
