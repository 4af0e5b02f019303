"""A bar chart over time, drawn on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["BARS_HEIGHT", "BARS_WIDTH", "Bars", "bars"]

BARS_WIDTH: Final = 960
BARS_HEIGHT: Final = 96
_GAP: Final = 0.2
_LEAST: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar chart as an SVG path."""

    path: str
    most: int | None  # None if there are no values
    places: int
    unknown: int  # Number of places without a value


def bars(values: Mapping[int, int], *, first: int, places: int, step: int) -> Bars:
    """Draw a bar chart of these values. `places` is the maximum number of bars."""
    keys = [first + step * number for number in range(places)]
    known = {key: values[key] for key in keys if key in values}
    most = max(known.values(), default=None)
    unit = BARS_HEIGHT / most if most else 0.0
    width = BARS_WIDTH / places
    path = ""
    for number, key in enumerate(keys):
        if not known.get(key):
            continue
        height = max(_LEAST, known[key] * unit)
        left, right = number * width + width * _GAP / 2, (number + 1) * width - width * _GAP / 2
        path += f"M{left:.1f} {BARS_HEIGHT}V{BARS_HEIGHT - height:.1f}H{right:.1f}V{BARS_HEIGHT}Z"
    return Bars(path=path, most=most, places=places, unknown=places - len(known))
