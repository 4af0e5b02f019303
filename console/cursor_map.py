"""The cursor map: a strip, drawn on the server, that shows how far a subscription has come in its topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["HEIGHT", "WIDTH", "Column", "CursorMap", "Tick", "cursor_map"]

WIDTH = 1000
HEIGHT = 56
COLUMNS = 200
BEFORE_SHARE = 0.06

Run = tuple[int, int]  # first and last index, both included


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the strip. Its parts are stacked from the bottom; sizes are in drawing units."""

    x: float
    width: float
    acked: float
    in_flight: float
    ready: float

    @property
    def acked_y(self) -> float:
        """Top of the acked part."""
        return round(HEIGHT - self.acked, 2)

    @property
    def in_flight_y(self) -> float:
        """Top of the part in flight."""
        return round(HEIGHT - self.acked - self.in_flight, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A labelled position."""

    name: str
    x: float

    @property
    def percent(self) -> float:
        """Return the position as a percentage of the strip's width."""
        return round(self.x / WIDTH * 100, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMap:
    """The strip from shortly before mark-delete, or from the beginning if all is acked, to the end of the log."""

    columns: tuple[Column, ...]
    ticks: tuple[Tick, ...]
    first: int  # index at the left edge
    last: int  # index at the right edge
    acked: int  # entries in the strip, by state
    in_flight: int
    ready: int


def cursor_map(
    *,
    begin: int,
    end: int,
    mark_delete: int,
    read: int | None,
    acked: Iterable[Run],
    in_flight: Iterable[Run],
) -> CursorMap | None:
    """Draw the indexes from shortly before `mark_delete` up to but not including `end`, or all if all are acked.

    None if the log is empty: `begin` is its first stored index. Everything up to `mark_delete` is acked, and `acked`
    has the runs beyond it. Runs must be sorted.
    """
    if end <= begin:
        return None
    beyond = max(end - (mark_delete + 1), 0)
    left = max(begin, mark_delete + 1 - max(round(beyond * BEFORE_SHARE), 1 if beyond else end - begin))
    span = end - left
    columns = min(COLUMNS, span)
    edges = [left + span * number // columns for number in range(columns + 1)]
    acked_counts = _counts([(left, mark_delete), *acked], edges)
    flight_counts = _counts(in_flight, edges)
    width = WIDTH / columns
    drawn = []
    for number in range(columns):
        entries = edges[number + 1] - edges[number]
        done = acked_counts[number]
        flying = min(flight_counts[number], entries - done)
        unit = HEIGHT / entries
        drawn.append(
            Column(
                x=round(number * width, 2),
                width=round(max(width - (0.8 if width > 3 else 0), 0.5), 2),
                acked=round(done * unit, 2),
                in_flight=round(flying * unit, 2),
                ready=round((entries - done - flying) * unit, 2),
            )
        )
    ticks = [Tick(name="mark-delete", x=round((max(mark_delete + 1, left) - left) / span * WIDTH, 2))]
    if read is not None and left <= read <= end:
        ticks.append(Tick(name="read", x=round((read - left) / span * WIDTH, 2)))
    done, flying = sum(acked_counts), sum(flight_counts)
    return CursorMap(
        columns=tuple(drawn),
        ticks=tuple(ticks),
        first=left,
        last=end - 1,
        acked=done,
        in_flight=flying,
        ready=max(span - done - flying, 0),
    )


def _counts(runs: Iterable[Run], edges: list[int]) -> list[int]:
    """Count the indexes of the runs between each pair of edges. Runs must be sorted."""
    counts = [0] * (len(edges) - 1)
    at = 0
    for first, last in runs:
        low, high = max(first, edges[0]), min(last + 1, edges[-1])
        while at < len(counts) - 1 and edges[at + 1] <= low:
            at += 1
        number = at
        while low < high and number < len(counts):
            step = min(high, edges[number + 1])
            counts[number] += max(step - max(low, edges[number]), 0)
            low = max(low, step)
            number += 1
    return counts
