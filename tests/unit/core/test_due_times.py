"""The heap of due times, compared with a dict as a model."""

from __future__ import annotations

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from broker.core.due_times import DueTimes

steps = st.lists(
    st.tuples(st.sampled_from(["bring_forward", "discard", "pop"]), st.integers(0, 8), st.integers(0, 900)),
    max_size=200,
)


@given(steps)
def test_due_times_equal_those_of_a_dict(steps: list[tuple[str, int, int]]) -> None:
    times: DueTimes[int] = DueTimes()
    model: dict[int, int] = {}
    for step, key, at_ms in steps:
        if step == "bring_forward":
            times.bring_forward(key, at_ms)
            model[key] = min(at_ms, model.get(key, at_ms))
        elif step == "discard":
            times.discard(key)
            model.pop(key, None)
        else:
            due = times.pop_due(at_ms)
            assert sorted(due) == sorted(k for k, due_ms in model.items() if due_ms <= at_ms)
            assert [model[k] for k in due] == sorted(model[k] for k in due)
            model = {k: due_ms for k, due_ms in model.items() if due_ms > at_ms}
        assert len(times) == len(model)
        assert (key in times) == (key in model)
        assert times.next_due_ms() == min(model.values(), default=None)


def test_a_key_whose_time_goes_back_and_forth_leaves_nothing_behind() -> None:
    times: DueTimes[str] = DueTimes()
    for now_ms in range(10_000):
        times.bring_forward("a", 1_000_000)
        times.bring_forward("a", now_ms)
        assert times.pop_due(now_ms) == ["a"]
    assert len(times._heap) < 100


def test_discarded_entries_are_not_kept_alive() -> None:
    class Key:
        pass

    times: DueTimes[Key] = DueTimes()
    key = Key()
    gone = weakref.ref(key)
    times.bring_forward(key, 1000)
    times.bring_forward(key, 10)
    times.discard(key)
    del key
    gc.collect()
    assert gone() is None
    assert times.next_due_ms() is None
