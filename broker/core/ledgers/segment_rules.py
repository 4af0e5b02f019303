"""When a segment is closed, and which one's last ledgers are worth copying out (design 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MAX_SEGMENTS", "SegmentUse", "closing_factor", "worth_copying"]

MAX_SEGMENTS = 64  # more of them cost every plan over the views
_CROWDED = 48  # from here on segments grow larger
_DOUBLES_EVERY = 4
_MOSTLY_DEAD = 4  # a copy of one byte frees at least three


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUse:
    """A closed segment and what of it is alive."""

    segment_id: int
    size_bytes: int  # table, TOAST and index
    ledgers: int  # that lie in it
    open_ledgers: int  # of these: their bytes are not known yet, the sweep seals them
    live_bytes: int  # of the sealed ones
    closed_ms: int
    is_long_lived: bool = False


def closing_factor(segments: int) -> int:
    """How many times the usual size and age a segment is filled to, by how many there are; 0 = never closed now."""
    if segments >= MAX_SEGMENTS:
        return 0
    if segments < _CROWDED:
        return 1
    return 2 << (segments - _CROWDED) // _DOUBLES_EVERY


def worth_copying(closed: Iterable[SegmentUse], segments: int) -> SegmentUse | None:
    """The segment whose ledgers are to be copied out next, so that it can be dropped; None when none is worth it.

    Usually one that is mostly dead; when segments are crowded, the one with the least to copy.
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
