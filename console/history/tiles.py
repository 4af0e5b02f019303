"""The numbers at the top of the overview page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from django.utils.translation import gettext_lazy

from console.history.series import Step

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["HEIGHT", "WIDTH", "Tile", "counted_until_ms", "tiles"]

WIDTH: Final = 200
HEIGHT: Final = 36
_EDGE: Final = 1.5

Unit = Literal["rate", "count", "size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number with a chart. The SVG paths `line` and `area` are empty if fewer than two values are known."""

    words: StrOrPromise
    unit: Unit
    now: float | None
    most: float | None
    line: str
    area: str


_TILES: Final[tuple[tuple[StrOrPromise, Unit, Callable[[Step], float | None]], ...]] = (
    (gettext_lazy("In"), "rate", lambda step: step.message_rate_in),
    (gettext_lazy("Out"), "rate", lambda step: step.message_rate_out),
    (gettext_lazy("Acked"), "rate", lambda step: step.message_rate_acked),
    (gettext_lazy("Backlog"), "count", lambda step: step.backlog_messages),
    (gettext_lazy("Stored"), "size", lambda step: step.stored_bytes),
)


def tiles(steps: Sequence[Step]) -> list[Tile]:
    """Return the tiles of the overview page."""
    return [_tile(words, unit, [of(step) for step in steps]) for words, unit, of in _TILES]


def counted_until_ms(steps: Sequence[Step], step_ms: int) -> int | None:
    """Return the end of the last step whose numbers are known, or None."""
    known = [step.at_ms for step in steps if step.message_rate_in is not None]
    return known[-1] + step_ms if known else None


def _tile(words: StrOrPromise, unit: Unit, values: Sequence[float | None]) -> Tile:
    known = [(number, value) for number, value in enumerate(values) if value is not None]
    now, most = (known[-1][1], max(value for _, value in known)) if known else (None, None)
    line = area = ""
    if len(known) > 1 and most is not None:
        points = list(_points(known, most))
        line = "M" + "L".join(f"{x} {y}" for x, y in points)
        area = f"{line}V{HEIGHT}H{points[0][0]}Z"
    return Tile(words=words, unit=unit, now=now, most=most, line=line, area=area)


def _points(known: Sequence[tuple[int, float]], most: float) -> Iterable[tuple[float, float]]:
    first, last = known[0][0], known[-1][0]
    unit = (HEIGHT - 2 * _EDGE) / most if most else 0.0
    for number, value in known:
        x = (number - first) / (last - first) * WIDTH
        yield round(x, 1), round(HEIGHT - _EDGE - value * unit, 1)
