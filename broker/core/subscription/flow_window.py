"""The recent message flow of a subscription, and the longest recent gap in the flow.

A gap is a time without new messages, or a time without acks while messages waited.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

__all__ = ["GAPS", "LONGEST_WAIT_MS", "WINDOW_MS", "FlowWindow", "LongestGap", "Sample", "Totals"]

WINDOW_MS: Final = 30_000

GAPS: Final = 3
"""The flow is considered stopped if a gap is this many times as long as the longest recent gap."""

LONGEST_WAIT_MS: Final = 600_000
"""After a gap of this length, the flow is always considered stopped."""

_RECENT_MS: Final = 15_000
_BUCKET_MS: Final = 3_000
_GAPS_REMEMBERED: Final = 15


class Sample(NamedTuple):
    """The message counts of a subscription at one moment."""

    now_ms: int
    ready_messages: int  # Published messages, except messages that are still delayed
    acked_messages: int  # Includes messages that a cursor move skipped
    waiting_messages: int  # An estimate that is 0 only if no message waits
    cursor_version: int  # Rises with each cursor move, but not with acks
    is_paused: bool
    has_consumers: bool  # Clients that pull are not consumers


class Totals(NamedTuple):
    """The cumulative counts at one moment."""

    at_ms: int
    ready_messages: int
    acked_messages: int

    @classmethod
    def of(cls, sample: Sample) -> Totals:
        """Return the totals of a sample."""
        return cls(sample.now_ms, sample.ready_messages, sample.acked_messages)

    def skipping(self, messages: int) -> Totals:
        """Return the totals, with the skipped messages counted as acked."""
        return self._replace(acked_messages=self.acked_messages + messages)


class LongestGap:
    """Remembers the length of the longest recent gap."""

    __slots__ = ("_before_ms", "_count", "_now_ms")

    def __init__(self) -> None:
        self._now_ms = 0
        self._before_ms = 0
        self._count = 0

    @property
    def ms(self) -> int:
        """The length of the longest gap."""
        return max(self._now_ms, self._before_ms)

    def add(self, gap_ms: int) -> None:
        """Remember a gap."""
        if self._count >= _GAPS_REMEMBERED:
            self._before_ms, self._now_ms, self._count = self._now_ms, 0, 0
        self._now_ms = max(self._now_ms, gap_ms)
        self._count += 1

    def age(self) -> None:
        """Treat all remembered gaps as old, so that they are forgotten soon."""
        self._before_ms, self._now_ms, self._count = self.ms, 0, 0

    def patience_ms(self, least_ms: int) -> int:
        """Return how long a gap may last before the flow is considered stopped."""
        return min(LONGEST_WAIT_MS, max(least_ms, GAPS * self.ms))


class FlowWindow:
    """The samples of the last 30 seconds, in buckets."""

    __slots__ = ("_rows",)
    _WIDTH: Final = 5  # The columns are begin_ms, ready, acked, lowest waiting and highest waiting

    def __init__(self) -> None:
        self._rows = array("q")

    def clear(self) -> None:
        """Forget all samples."""
        del self._rows[:]

    def add(self, sample: Sample) -> None:
        """Remember a sample, and forget the samples outside the window."""
        rows, width, waiting = self._rows, self._WIDTH, sample.waiting_messages
        if not rows or sample.now_ms - rows[-width] >= _BUCKET_MS:
            rows.extend((sample.now_ms, sample.ready_messages, sample.acked_messages, waiting, waiting))
            while len(rows) > width and rows[width] <= sample.now_ms - WINDOW_MS:
                del rows[:width]
        else:
            rows[-2] = min(rows[-2], waiting)
            rows[-1] = max(rows[-1], waiting)

    def skip(self, messages: int) -> None:
        """Treat skipped messages as acked in all samples."""
        for at in range(0, len(self._rows), self._WIDTH):
            self._rows[at + 2] += messages
            self._rows[at + 3] = max(0, self._rows[at + 3] - messages)
            self._rows[at + 4] = max(0, self._rows[at + 4] - messages)

    def is_full(self, now_ms: int) -> bool:
        """Return whether the samples cover the whole window."""
        return bool(self._rows) and now_ms - self._rows[0] >= WINDOW_MS

    def flow_since(self, at: int, sample: Sample) -> tuple[int, int, int]:
        """Return the milliseconds and the numbers of new and acked messages since the given bucket began."""
        begin_ms, ready, acked = self._rows[at : at + 3]
        return sample.now_ms - begin_ms, sample.ready_messages - ready, sample.acked_messages - acked

    @property
    def begin(self) -> Totals:
        """The totals at the beginning of the window. The window must not be empty."""
        return Totals(*self._rows[:3])

    def recent(self, now_ms: int) -> int:
        """Return the index of the first bucket of the last 15 seconds."""
        at = len(self._rows) - self._WIDTH
        while at and self._rows[at - self._WIDTH] >= now_ms - _RECENT_MS:
            at -= self._WIDTH
        return at

    def lowest(self, at: int) -> int:
        """Return the smallest number of waiting messages since the given bucket began."""
        return min(self._rows[at + 3 :: self._WIDTH])

    def highest(self, at: int) -> int:
        """Return the largest number of waiting messages since the given bucket began."""
        return max(self._rows[at + 4 :: self._WIDTH])
