"""Latencies from delivery to ack."""

from __future__ import annotations

from vela.wire.latency_counts import BUCKETS, LONGEST_MS

__all__ = ["BUCKETS", "AckLatencies"]


class AckLatencies:
    """Counts messages by the time from their latest delivery to their ack."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: list[int] | None = None

    def count(self, latency_ms: int, messages: int) -> None:
        """Count acked messages. A negative latency counts as 0."""
        if self._counts is None:
            self._counts = [0] * BUCKETS
        bucket = (
            latency_ms.bit_length() if 0 <= latency_ms <= LONGEST_MS else BUCKETS - 1 if latency_ms > 0 else 0
        )
        self._counts[bucket] += messages

    def take(self) -> list[int] | None:
        """Return the counts and reset them. Return None if nothing was counted.

        Leaves out empty buckets at the end.
        """
        counts, self._counts = self._counts, None
        while counts and not counts[-1]:
            counts.pop()
        return counts or None
