"""A pace counts from the first amount, and delays nothing below its rate."""

from __future__ import annotations

import pytest

from pipeline.pace import Pace


def test_a_pace_lets_no_more_through_than_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("pipeline.pace.time.monotonic", lambda: now_s)
    pace = Pace(10)
    assert [pace.pause_s(1) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    now_s = 101.0
    assert pace.pause_s(1) == 0.0
    assert pace.pause_s(16) == pytest.approx(1.0)


def test_a_pace_that_was_interrupted_does_not_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("pipeline.pace.time.monotonic", lambda: now_s)
    pace = Pace(10)
    pace.pause_s(1)
    now_s = 160.0
    assert pace.pause_s(10) == 0.0
    assert pace.pause_s(10) == pytest.approx(1.0)


def test_zero_means_no_limit() -> None:
    assert Pace(0).pause_s(1 << 60) == 0.0
