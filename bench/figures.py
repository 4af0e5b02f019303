"""What was measured: runs, their median, and what it should be."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "Goal", "percentile", "ratio_percent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure must reach; one of the two is given."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether the value is good enough. NaN never is."""
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
    runs: tuple[float, ...]  # one value a run, in the order they were taken
    goal: Goal | None = None
    note: str = ""  # what else was seen: CPU, window, generator's lateness

    @property
    def median(self) -> float:
        """The value that is reported."""
        return statistics.median(self.runs)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        return None if self.goal is None else self.goal.is_met(self.median)

    def as_json(self) -> dict[str, object]:
        """Everything about it, for the results file."""
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
    """Each run as a percentage of the ceiling taken beside it."""
    return tuple(100.0 * value / ceiling for value, ceiling in zip(values, ceilings, strict=True))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank). ValueError if empty."""
    if not values:
        raise ValueError("no values: nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100.0 * len(ordered)) - 1)]
