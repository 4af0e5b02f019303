"""Ack timeouts and negative acks, compared with a dict as a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.position import Position
from broker.core.subscription.delivery_deadlines import DeliveryDeadlines, Due

START_MS = 1_700_000_000_000
steps = st.lists(
    st.tuples(
        st.sampled_from(["time_out", "nack", "cancel", "cancel_all", "advance"]),
        st.integers(0, 5),
        st.integers(0, 900),
    ),
    max_size=60,
)


@pytest.mark.row("I22")
@given(steps)
def test_nothing_is_due_early_or_late_or_after_it_was_cancelled(
    steps: list[tuple[str, int, int]],
) -> None:
    deadlines = DeliveryDeadlines()
    model: dict[Position, tuple[int, bool]] = {}
    now_ms = START_MS
    for step, number, delay_ms in steps:
        position, due_ms = Position(1, number), now_ms + delay_ms
        known = model.get(position)
        match step:
            case "time_out" if known is None:
                deadlines.time_out(position, due_ms)
                model[position] = due_ms, False
            case "nack":
                deadlines.nack(position, due_ms)
                if known is None or not known[1]:
                    model[position] = due_ms, True
            case "cancel":
                deadlines.cancel(position)
                model.pop(position, None)
            case "cancel_all":
                deadlines.cancel_all()
                model.clear()
            case "advance":
                now_ms += delay_ms
                due = deadlines.pop_due(now_ms)
                late = {p: each for p, each in model.items() if each[0] <= now_ms}
                assert {each.position: each.is_nack for each in due} == {p: e[1] for p, e in late.items()}
                model = {p: each for p, each in model.items() if p not in late}
        assert len(deadlines) == len(model)
        assert deadlines.next_due_ms() == min((each[0] for each in model.values()), default=None)
        assert deadlines.due_ms(position) == model.get(position, (None, False))[0]


@pytest.mark.row("S4.19")
def test_a_nack_replaces_the_timeout_and_a_second_one_changes_nothing() -> None:
    deadlines, position = DeliveryDeadlines(), Position(1, 1)
    deadlines.time_out(position, START_MS + 1000)
    deadlines.nack(position, START_MS + 3000)
    deadlines.nack(position, START_MS + 3500)
    assert deadlines.pop_due(START_MS + 2999) == []
    assert deadlines.pop_due(START_MS + 3000) == [Due(position, True)]
    assert deadlines.pop_due(START_MS + 9000) == []
    deadlines.time_out(position, START_MS + 9500)  # a redelivery counts as an ordinary delivery
    assert deadlines.pop_due(START_MS + 9500) == [Due(position, False)]
