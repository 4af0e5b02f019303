"""What the table of the benchmark says about the measured figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Figure, Goal, percentile, ratio_percent


def test_a_goal_is_met_at_its_own_value() -> None:
    assert Goal(at_least=60.0).is_met(60.0)
    assert not Goal(at_least=60.0).is_met(59.9)
    assert Goal(at_most=20.0).is_met(20.0)
    assert not Goal(at_most=20.0).is_met(20.1)


@pytest.mark.parametrize("goal", [Goal(at_least=0.0), Goal(at_most=0.0)])
def test_without_a_measurement_no_goal_is_met(goal: Goal) -> None:
    assert not goal.is_met(math.nan)


def test_the_median_decides_and_not_the_best_run() -> None:
    figure = Figure(name="rate", unit="msg/s", runs=(10.0, 100.0, 20.0), goal=Goal(at_least=50.0))
    assert figure.median == 20.0
    assert figure.is_met is False
    assert figure.as_json()["runs"] == [10.0, 100.0, 20.0]


def test_without_a_goal_nothing_is_met_or_missed() -> None:
    assert Figure(name="ceiling", unit="msg/s", runs=(1.0,)).is_met is None


def test_a_ratio_is_taken_run_by_run() -> None:
    assert ratio_percent([50.0, 10.0], [100.0, 10.0]) == (50.0, 100.0)
    with pytest.raises(ValueError, match="argument 2"):
        ratio_percent([1.0, 2.0], [1.0])


def test_percentiles_of_an_empty_list_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 99)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0.1, 100))
def test_a_percentile_is_the_smallest_value_with_that_share_at_or_below_it(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    share = 100.0 * sum(value <= found for value in values) / len(values)
    assert found in values
    assert share >= percent - 1e-9
    smaller = [value for value in values if value < found]
    assert 100.0 * len(smaller) / len(values) < percent
