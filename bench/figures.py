"""Figures: measured runs, their median, and the goal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "Goal", "percentile", "ratio_percent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure must reach. Exactly one of the two limits is set."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        """Return whether the value is good enough. NaN never is."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most

    def __str__(self) -> str:
        return f"≥ {self.at_least:,g}" if self.at_least is not None else f"≤ {self.at_most:,g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table."""

    name: str
    unit: str
    runs: tuple[float, ...]  # one value for each run, in order
    goal: Goal | None = None
    note: str = ""  # other observations: CPU, window, lateness of the generator

    @property
    def median(self) -> float:
        """Return the reported value."""
        return statistics.median(self.runs)

    @property
    def is_met(self) -> bool | None:
        """Return whether the goal is reached; None if there is no goal."""
        return None if self.goal is None else self.goal.is_met(self.median)

    def as_json(self) -> dict[str, object]:
        """Return the figure as the results file stores it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "runs": list(self.runs),
            "goal": None if self.goal is None else str(self.goal),
            "met": self.is_met,
            "note": self.note,
        }


def ratio_percent(values: Sequence[float], ceilings: Sequence[float]) -> tuple[float, ...]:
    """Return each run as a percentage of the ceiling measured beside it."""
    return tuple(100.0 * value / ceiling for value, ceiling in zip(values, ceilings, strict=True))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by nearest rank. Raises ValueError if there are no values."""
    if not values:
        raise ValueError("no values: nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100.0 * len(ordered)) - 1)]
