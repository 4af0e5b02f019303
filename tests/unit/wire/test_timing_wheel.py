"""The timing wheel, compared with a dict as a model: no key is due early or late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.timing_wheel import TimingWheel

steps = st.lists(
    st.tuples(st.sampled_from(["schedule", "cancel", "advance"]), st.integers(0, 8), st.integers(-50, 900)),
    max_size=60,
)


@given(steps, st.integers(1, 40), st.sampled_from([0, 1_700_000_000_000]))
def test_keys_are_due_when_a_dict_says_so(
    steps: list[tuple[str, int, int]], tick_ms: int, start_ms: int
) -> None:
    wheel: TimingWheel[int] = TimingWheel(tick_ms=tick_ms)
    model: dict[int, int] = {}
    now_ms = start_ms
    for step, key, delay_ms in steps:
        if step == "schedule":
            wheel.schedule(key, now_ms + delay_ms)
            model[key] = now_ms + delay_ms
        elif step == "cancel":
            assert wheel.cancel(key) == (model.pop(key, None) is not None)
        else:
            now_ms += max(0, delay_ms)
            due = wheel.pop_due(now_ms)
            assert set(due) == {k for k, due_ms in model.items() if due_ms <= now_ms}
            assert [model[k] for k in due] == sorted(model[k] for k in due)
            model = {k: due_ms for k, due_ms in model.items() if due_ms > now_ms}
        assert len(wheel) == len(model)
        assert set(wheel) == model.keys()
        assert wheel.due_ms(key) == model.get(key)
        assert wheel.next_due_ms() == min(model.values(), default=None)
    wheel.clear()
    assert (len(wheel), wheel.next_due_ms()) == (0, None)


def test_a_clock_set_back_loses_nothing() -> None:
    wheel: TimingWheel[str] = TimingWheel(tick_ms=10)
    wheel.schedule("a", 1000)
    assert wheel.pop_due(900) == []
    assert wheel.pop_due(500) == []
    wheel.schedule("b", 600)
    assert wheel.pop_due(599) == []
    assert wheel.pop_due(600) == ["b"]
    assert wheel.pop_due(1000) == ["a"]


def test_a_key_that_comes_and_goes_leaves_nothing_behind() -> None:
    wheel: TimingWheel[str] = TimingWheel(tick_ms=10)
    wheel.schedule("stays", 5000)
    for _ in range(1000):
        wheel.schedule("comes and goes", 30_000)
        wheel.cancel("comes and goes")
    assert len(wheel._next) < 100
    assert wheel.next_due_ms() == 5000
    assert wheel.pop_due(30_000) == ["stays"]


def test_a_tick_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="tick_ms"):
        TimingWheel(tick_ms=0)
