"""Decide when to close a segment, and which segment to empty by copying its ledgers to other segments.

A segment is a pair of tables with the entries of many ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MAX_SEGMENTS", "SegmentUse", "closing_factor", "worth_copying"]

# With more segments, PostgreSQL would take too long to plan a query over all segments.
MAX_SEGMENTS = 64
# From this number of segments on, each segment may grow larger.
_CROWDED = 48
_DOUBLES_EVERY = 4
_MOSTLY_DEAD = 4  # A segment is mostly dead if at most one byte in four is live


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUse:
    """The size and contents of a closed segment."""

    segment_id: int
    size_bytes: int  # Including indexes
    ledgers: int
    open_ledgers: int  # Number of unsealed ledgers; their sizes are unknown
    live_bytes: int  # Approximate size of the sealed ledgers' rows


def closing_factor(segments: int) -> int:
    """Return the factor for a segment's limits of size and age, or 0 if no segment may be closed."""
    if segments >= MAX_SEGMENTS:
        return 0
    if segments < _CROWDED:
        return 1
    return 2 << (segments - _CROWDED) // _DOUBLES_EVERY


def worth_copying(closed: Iterable[SegmentUse], segments: int) -> SegmentUse | None:
    """Return the segment to empty next, or None. A segment with an open ledger has to wait.

    At most a quarter of the segment's bytes may be live, or at most half if there are many segments.
    """
    ready = [each for each in closed if each.ledgers and not each.open_ledgers]
    chosen = min(
        ready, key=lambda each: (each.live_bytes / max(1, each.size_bytes), each.segment_id), default=None
    )
    if chosen is not None and chosen.live_bytes * _MOSTLY_DEAD <= chosen.size_bytes:
        return chosen
    if segments < _CROWDED:
        return None
    least = min(ready, key=lambda each: (each.live_bytes, each.segment_id), default=None)
    return least if least is not None and 2 * least.live_bytes <= least.size_bytes else None
