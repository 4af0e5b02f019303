"""How the benchmark tells growth of memory or files from noise."""

from __future__ import annotations

import pytest

from bench.questions.lasting.endurance import growth_percent

TIMES_S = tuple(float(number) for number in range(11))


def test_an_even_growth_is_the_difference_of_its_ends() -> None:
    assert growth_percent(TIMES_S, tuple(100 + at for at in TIMES_S)) == pytest.approx(100 * 10 / 105)


def test_a_value_that_rises_and_falls_back_is_flat() -> None:
    saw = tuple(100.0 + number % 2 for number in range(11))
    assert abs(growth_percent(TIMES_S, saw)) < 0.1


def test_a_series_of_zeros_has_no_growth() -> None:
    assert growth_percent(TIMES_S, (0.0,) * 11) == 0.0
