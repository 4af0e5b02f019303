"""Decide when to close a segment (two tables of entries), and which one to empty by copying out its ledgers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MAX_SEGMENTS", "SegmentUse", "closing_factor", "worth_copying"]

MAX_SEGMENTS = 64  # with more segments, PostgreSQL takes a long time to plan each query over the views
_CROWDED = 48  # from this many segments on, segments grow larger, and copying may free less
_DOUBLES_EVERY = 4  # beyond `_CROWDED`, this many more segments double the limits once more
_MOSTLY_DEAD = 4  # usually, copying one byte must free at least three


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUse:
    """A closed segment, and how much of it is still in use."""

    segment_id: int
    size_bytes: int  # of its tables and their indexes
    ledgers: int
    open_ledgers: int  # among `ledgers`; their bytes are unknown until they are sealed
    live_bytes: int  # about the size of the sealed ledgers' rows


def closing_factor(segments: int) -> int:
    """Return the factor by which this many segments raise the usual limits of size and age; 0 = close no segment."""
    if segments >= MAX_SEGMENTS:
        return 0
    if segments < _CROWDED:
        return 1
    return 2 << (segments - _CROWDED) // _DOUBLES_EVERY


def worth_copying(closed: Iterable[SegmentUse], segments: int) -> SegmentUse | None:
    """Return the segment whose ledgers to copy out next, or None. A segment with an open ledger has to wait.

    At least three quarters of the segment must be dead, which means no longer needed. If no segment qualifies and there
    are many segments, return the one with the least to copy, if at least half of it is dead.
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
