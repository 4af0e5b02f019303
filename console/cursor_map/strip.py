"""The cursor map: a strip that shows which entries of a log are acked, in flight or ready."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from console.cursor_map.counting import Flight, Run, Share, counts, shares_of, unacked

__all__ = ["HEIGHT", "WIDTH", "Bar", "Column", "CursorMap", "Part", "PartShare", "Tick", "cursor_map"]

WIDTH: Final = 1000
HEIGHT: Final = 56
COLUMNS: Final = 200
PARTS: Final = 20  # Maximum number of clickable parts
BEFORE_SHARE: Final = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A coloured bar that shows entries in flight in one column."""

    colour: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the strip."""

    x: float
    width: float
    acked: float
    in_flight: Sequence[Bar]
    ready: float

    @property
    def acked_y(self) -> float:
        """The y coordinate of the upper edge of the acked area."""
        return round(HEIGHT - self.acked, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A labelled mark on the strip."""

    name: str
    x: float

    @property
    def percent(self) -> float:
        """`x` as a percentage of the strip's width."""
        return round(self.x / WIDTH * 100, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShare:
    """How many entries of a part are in flight at one consumer, or at all the consumers that share colour 0."""

    consumer: str
    colour: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the strip, with its numbers of acked, in-flight and ready entries."""

    first: int
    last: int
    x: float
    width: float
    acked: int
    in_flight: Sequence[PartShare]
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMap:
    """The strip with its parts, ticks and totals."""

    columns: Sequence[Column]
    parts: Sequence[Part]
    shares: Sequence[Share]
    ticks: Sequence[Tick]
    first: int
    last: int
    acked: int
    in_flight: int
    ready: int


def cursor_map(
    *,
    begin: int,
    end: int,
    mark_delete: int,
    read: int | None,
    acked: Sequence[Run],
    in_flight: Sequence[Flight],
) -> CursorMap | None:
    """Draw the log from shortly before `mark_delete` to the end, or the whole log if everything is acked.

    Returns None for an empty log. `end` is the index after the last entry. `acked` holds the runs of acked entries
    beyond `mark_delete`. `acked` and `in_flight` must be sorted.
    """
    if end <= begin:
        return None
    beyond = max(end - (mark_delete + 1), 0)
    left = max(begin, mark_delete + 1 - max(round(beyond * BEFORE_SHARE), 1 if beyond else end - begin))
    span = end - left
    all_acked = [(left, mark_delete), *acked]
    # A delivery of several entries may include acked entries.
    shares = shares_of(list(unacked(in_flight, [(0, mark_delete), *acked])))
    parts = tuple(_parts(_edges(left, span, PARTS), all_acked, shares))
    ticks = [Tick(name="mark-delete", x=round((max(mark_delete + 1, left) - left) / span * WIDTH, 2))]
    if read is not None and left <= read <= end:
        ticks.append(Tick(name="read", x=round((read - left) / span * WIDTH, 2)))
    return CursorMap(
        columns=tuple(_columns(_edges(left, span, COLUMNS), all_acked, shares)),
        parts=parts,
        shares=shares,
        ticks=ticks,
        first=left,
        last=end - 1,
        acked=sum(part.acked for part in parts),
        in_flight=sum(share.entries for part in parts for share in part.in_flight),
        ready=sum(part.ready for part in parts),
    )


def _edges(left: int, span: int, most: int) -> list[int]:
    number = min(most, span)
    return [left + span * each // number for each in range(number + 1)]


def _parts(edges: Sequence[int], acked: Sequence[Run], shares: Sequence[Share]) -> Iterator[Part]:
    acked_counts = counts(acked, edges)
    share_counts = [counts(share.runs, edges) for share in shares]
    span = edges[-1] - edges[0]
    for number, (first, following) in enumerate(pairwise(edges)):
        left = following - first - acked_counts[number]
        in_flight = []
        for share, found in zip(shares, share_counts, strict=True):
            # Two deliveries may include the same entry, so the count may be too high.
            if flying := min(found[number], left):
                in_flight.append(PartShare(consumer=share.consumer, colour=share.colour, entries=flying))
                left -= flying
        yield Part(
            first=first,
            last=following - 1,
            x=round((first - edges[0]) / span * WIDTH, 2),
            width=round((following - first) / span * WIDTH, 2),
            acked=acked_counts[number],
            in_flight=tuple(in_flight),
            ready=left,
        )


def _columns(edges: Sequence[int], acked: Sequence[Run], shares: Sequence[Share]) -> Iterator[Column]:
    width = WIDTH / (len(edges) - 1)
    for number, part in enumerate(_parts(edges, acked, shares)):
        unit = HEIGHT / (part.last - part.first + 1)
        top = HEIGHT - part.acked * unit
        bars = []
        for share in part.in_flight:
            top -= share.entries * unit
            bars.append(Bar(colour=share.colour, y=round(top, 2), height=round(share.entries * unit, 2)))
        yield Column(
            x=round(number * width, 2),
            width=round(max(width - (0.8 if width > 3 else 0), 0.5), 2),
            acked=round(part.acked * unit, 2),
            in_flight=tuple(bars),
            ready=round(part.ready * unit, 2),
        )
