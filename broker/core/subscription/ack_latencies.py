"""How long the messages of a subscription took from delivery to ack."""

from __future__ import annotations

from vela.wire.latency_counts import BUCKETS, LONGEST_MS

__all__ = ["BUCKETS", "AckLatencies"]


class AckLatencies:
    """Counts of messages by the time from their latest delivery to their ack, since `take` was last called."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: list[int] | None = None  # made at the first ack: most subscriptions are idle

    def count(self, latency_ms: int, messages: int) -> None:
        """Count messages that were acked this long after they were delivered. A negative time counts as 0."""
        if self._counts is None:
            self._counts = [0] * BUCKETS
        bucket = (
            latency_ms.bit_length() if 0 <= latency_ms <= LONGEST_MS else BUCKETS - 1 if latency_ms > 0 else 0
        )
        self._counts[bucket] += messages

    def take(self) -> list[int] | None:
        """Return the counts up to the last bucket that is not 0, and reset all. None = nothing was counted."""
        counts, self._counts = self._counts, None
        while counts and not counts[-1]:
            counts.pop()
        return counts or None
