"""The pauses between flushes of cursors."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.subscription.flush_pace import REFUSED_PAUSE_MOST_S, WINDOW_S, flush_pause_s, refused_pause_s


@given(flush_s=st.floats(0, 0.45))
def test_no_ack_stays_unstored_for_longer_than_the_window(flush_s: float) -> None:
    assert flush_s + flush_pause_s(flush_s) + flush_s <= WINDOW_S + 1e-9


@pytest.mark.parametrize(
    ("flush_s", "pause_s"),
    [(0.0, 0.1), (0.005, 0.1), (0.02, 0.4), (0.1, 0.8), (0.4, 0.2), (0.5, 0.1), (30.0, 0.1)],
)
def test_quick_flushes_come_often_and_slow_ones_leave_the_database_a_pause(
    flush_s: float, pause_s: float
) -> None:
    assert flush_pause_s(flush_s) == pytest.approx(pause_s)


def test_a_refused_cursor_is_tried_at_a_growing_interval_of_a_minute_at_most() -> None:
    pauses = [refused_pause_s(refusals) for refusals in range(1, 2000)]
    assert pauses[0] < WINDOW_S
    assert all(2 * shorter == longer for shorter, longer in pairwise(pauses[:9]))
    assert set(pauses[10:]) == {REFUSED_PAUSE_MOST_S} == {60}
