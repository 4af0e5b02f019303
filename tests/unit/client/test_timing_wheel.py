"""The client's timing wheel against a dict: rounded up never early, rounded down never late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.timing_wheel import TimingWheel

steps = st.lists(
    st.tuples(st.sampled_from(["schedule", "cancel", "advance"]), st.integers(0, 8), st.integers(-50, 900)),
    max_size=60,
)


@given(steps, st.integers(1, 40), st.booleans(), st.sampled_from([0, 1_700_000_000_000]))
def test_against_a_dict(steps: list[tuple[str, int, int]], tick_ms: int, early: bool, start_ms: int) -> None:
    wheel: TimingWheel[int] = TimingWheel(tick_ms=tick_ms, early=early)
    model: dict[int, int] = {}
    now_ms = start_ms
    for step, key, delay_ms in steps:
        if step == "schedule":
            due_ms = now_ms + delay_ms
            wheel.schedule(key, due_ms)
            late = due_ms % tick_ms
            model[key] = due_ms - late if early else due_ms + (tick_ms - late) % tick_ms
        elif step == "cancel":
            assert wheel.cancel(key) == (model.pop(key, None) is not None)
        else:
            now_ms += max(0, delay_ms)
            due = wheel.pop_due(now_ms)
            assert set(due) == {k for k, due_ms in model.items() if due_ms <= now_ms}
            assert [model[k] for k in due] == sorted(model[k] for k in due)
            model = {k: due_ms for k, due_ms in model.items() if due_ms > now_ms}
        assert len(wheel) == len(model)
        assert (key in wheel) == (key in model)
        assert wheel.next_due_ms() == min(model.values(), default=None)
    wheel.clear()
    assert (len(wheel), wheel.next_due_ms()) == (0, None)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="tick_ms"):
        TimingWheel(tick_ms=0)
