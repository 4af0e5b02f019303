"""Permits: what the consumer asks for, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.flow.receive_window import ReceiveWindow


def opened(size: int, **options: bool) -> ReceiveWindow:
    window = ReceiveWindow(size, **options)
    window.attached()
    return window


@pytest.mark.row("S0.36")
def test_the_window_is_as_large_as_requested_and_at_least_one() -> None:
    assert ReceiveWindow(1).size == 1
    assert ReceiveWindow(1000).size == 1000
    assert ReceiveWindow(1000, growable=True).size == 1
    with pytest.raises(ValueError, match="1 message or more"):
        ReceiveWindow(0)


@pytest.mark.row("S0.36")
def test_a_growable_window_doubles_up_to_its_size() -> None:
    window = opened(10, growable=True)
    flows, sizes = [], []
    for _ in range(6):
        window.spent(window.at_broker)
        flows.append(window.ran_dry())
        sizes.append(window.size)
    assert sizes == [2, 4, 8, 10, 10, 10]
    assert sum(flows) + window.owed == 9


@pytest.mark.row("S0.36")
def test_a_growable_window_stays_unless_all_its_messages_arrived_and_were_taken() -> None:
    window = opened(10, growable=True)
    assert (window.ran_dry(), window.size) == (0, 1)
    window.spent(1)
    window.emptied()
    assert (window.ran_dry(), window.size) == (0, 1)
    fixed = opened(10)
    fixed.spent(10)
    assert (fixed.ran_dry(), fixed.size) == (0, 10)


@pytest.mark.row("S0.41")
def test_the_first_flow_is_the_whole_queue_on_every_connection() -> None:
    window = ReceiveWindow(10)
    assert window.attached() == 10
    window.give_back(3)
    assert window.attached() == 10
    assert window.owed == 0


@pytest.mark.row("S0.43")
def test_permits_of_half_the_queue_are_granted_in_one_flow() -> None:
    window = opened(10)
    assert [window.give_back(1) for _ in range(5)] == [0, 0, 0, 0, 5]
    assert window.give_back(7) == 7
    assert [opened(1).give_back(1), opened(2).give_back(1), opened(3).give_back(1)] == [1, 1, 1]


@pytest.mark.row("S0.43")
@given(st.integers(1, 50), st.lists(st.integers(1, 40)))
def test_flows_and_owed_permits_add_up_to_taken_messages(size: int, takes: list[int]) -> None:
    window = opened(size)
    flows = [window.give_back(count) for count in takes]
    assert sum(flows) + window.owed == sum(takes)
    assert window.owed < max(1, size // 2)


@pytest.mark.row("I7")
@given(
    st.integers(1, 20),
    st.lists(st.sampled_from(["deliver", "take", "untake", "discard", "pause", "resume", "grow", "attach"])),
)
def test_permits_never_drift(size: int, steps: list[str]) -> None:
    window = ReceiveWindow(size, growable=True)
    at_broker = window.attached()
    queued = taken = 0
    for step in steps:
        if step == "deliver" and at_broker > 0:
            at_broker -= 1
            queued += 1
            window.spent(1)
        elif step == "take" and queued:
            queued, taken = queued - 1, taken + 1
            at_broker += window.give_back(1)
        elif step == "untake" and taken:
            queued, taken = queued + 1, taken - 1
            window.take_back(1)
        elif step == "discard" and queued:
            queued -= 1
            at_broker += window.give_back(1)
        elif step == "pause":
            window.pause()
        elif step == "resume":
            at_broker += window.resume()
        elif step == "grow":
            at_broker += window.ran_dry()
        elif step == "attach":
            at_broker, queued, taken = window.attached(), 0, 0
        assert window.at_broker == at_broker
        assert at_broker + window.owed + queued == window.size


def test_a_paused_window_keeps_restored_permits() -> None:
    window = ReceiveWindow(4, paused=True)
    assert window.is_paused
    assert window.attached() == 0
    assert window.resume() == 4
    window.pause()
    assert [window.give_back(1) for _ in range(4)] == [0, 0, 0, 0]
    assert window.resume() == 4
    assert window.resume() == 0
