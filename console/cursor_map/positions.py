"""The parts of a cursor map, with their positions in the log."""

from __future__ import annotations

from dataclasses import dataclass

from console.cursor_map.strip import CursorMap, Part
from console.queries.topics.log import Log, Place

__all__ = ["PlacedPart", "placed_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPart:
    """A part of a cursor map. `begin` and `end` are the positions of the first and last entry, as ledger:entry."""

    part: Part
    begin: str
    end: str


def placed_parts(drawn: CursorMap | None, log: Log) -> list[PlacedPart]:
    """Return the parts of a cursor map, with their positions in the log."""
    parts = () if drawn is None else drawn.parts
    return [
        PlacedPart(part=part, begin=_text(begin), end=_text(end))
        for part in parts
        if (begin := log.place_at(part.first)) is not None and (end := log.place_at(part.last)) is not None
    ]


def _text(place: Place) -> str:
    return f"{place[0]}:{place[1]}"
