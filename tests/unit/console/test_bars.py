"""Bars of hours: one for each hour with messages, and none for hours that nothing is known about."""

from __future__ import annotations

import re

from console.history.bars import BARS_HEIGHT, BARS_WIDTH, bars


def test_each_bar_is_drawn_at_the_place_of_its_hour() -> None:
    drawn = bars({100: 4, 300: 2, 999: 50}, first=0, places=5, step=100)
    tops = [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) 96V([\d.]+)", drawn.path)]
    width = BARS_WIDTH / 5
    assert [int(x // width) for x, _ in tops] == [1, 3]
    assert [y for _, y in tops] == [0.0, BARS_HEIGHT / 2]
    assert (drawn.most, drawn.places, drawn.unknown) == (4, 5, 3)


def test_no_value_has_no_bar_and_a_very_small_one_is_still_visible() -> None:
    assert bars({}, first=0, places=3, step=1).path == ""
    assert bars({}, first=0, places=3, step=1).most is None
    empty = bars({0: 0}, first=0, places=3, step=1)
    assert (empty.path, empty.most, empty.unknown) == ("", 0, 2)
    drawn = bars({0: 1, 1: 10**9}, first=0, places=2, step=1)
    assert f"V{BARS_HEIGHT - 1:.1f}" in drawn.path
