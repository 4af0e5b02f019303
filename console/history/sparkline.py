"""Draw the backlog of the last hour as a small line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["BUCKET_MS", "HEIGHT", "WIDTH", "BacklogPoint", "Sparkline", "sparkline"]

WIDTH: Final = 96
HEIGHT: Final = 20
BUCKET_MS: Final = 60_000
_EDGE: Final = 1.5


class BacklogPoint(NamedTuple):
    """The backlog of a subscription in one minute, or of a topic if `subscription_id` is 0.

    A point whose three backlogs are None marks the creation of the topic or subscription. A point whose `topic_id` is 0
    only says that the newest points are missing.
    """

    at_ms: int
    topic_id: int
    subscription_id: int
    backlog_before: int | None
    backlog: int | None
    backlog_most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """An SVG path, and the numbers that it shows. The path is empty if no backlog is known."""

    path: str
    first: int | None  # The backlog at the left edge
    most: int | None
    last: int | None  # The backlog at the right edge


def sparkline(points: Iterable[BacklogPoint], now: int | None, *, from_ms: int, to_ms: int) -> Sparkline:
    """Draw the backlog between `from_ms` and `to_ms` as steps.

    `now` is the backlog at the right edge.
    """
    ordered = sorted(points, key=lambda point: (point.at_ms, point.backlog is not None))
    first = ordered[0].backlog_before if ordered else now
    corners = [(from_ms, first), *_corners(ordered, to_ms), (to_ms, now)]
    known = [(at_ms, value) for at_ms, value in corners if value is not None]
    if not known:
        return Sparkline(path="", first=None, most=None, last=None)
    most = max(value for _, value in known)
    unit = (HEIGHT - 2 * _EDGE) / most if most else 0
    path, level = "", -1
    for at_ms, value in known:
        if value == level:
            continue
        level = value
        x = _short(max(at_ms - from_ms, 0) / (to_ms - from_ms) * WIDTH)
        y = _short(HEIGHT - _EDGE - value * unit)
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return Sparkline(path=f"{path}H{WIDTH}", first=first, most=most, last=now)


def _corners(ordered: list[BacklogPoint], to_ms: int) -> Iterator[tuple[int, int | None]]:
    for point, following in pairwise([*ordered, None]):
        if point is None:
            return
        yield point.at_ms, point.backlog_most
        ends_ms = point.at_ms + BUCKET_MS
        if ends_ms < (to_ms if following is None else following.at_ms):
            yield ends_ms, point.backlog


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
