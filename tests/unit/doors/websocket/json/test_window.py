"""How many messages may be pushed: the push window, and the balance of clients that pull."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.websocket.json.errors import CloseCode, InvalidCommand
from broker.doors.websocket.json.window import DeliveryWindow


def test_a_push_window_stops_when_it_is_full_and_each_ack_frees_one_place() -> None:
    window = DeliveryWindow.push(2)
    assert window.room == 2
    window.pushed(2)
    assert window.room == 0
    assert window.settled() == 1
    assert window.room == 1


def test_duplicate_acks_widen_the_push_window() -> None:
    window = DeliveryWindow.push(1)
    window.pushed()
    window.settled()
    window.settled()
    assert window.room == 2


def test_a_batch_may_overshoot_and_the_debt_is_paid_first() -> None:
    window = DeliveryWindow.push(1)
    window.pushed(3)
    assert window.room == 0
    window.settled(2)
    assert window.room == 0
    window.settled()
    assert window.room == 1


def test_push_mode_ignores_any_number_of_permits() -> None:
    window = DeliveryWindow.push(1)
    assert [window.permit(n) for n in (5, 0, -5)] == [0, 0, 0]
    assert window.room == 1


def test_pull_mode_pushes_nothing_before_a_permit_and_acks_do_not_count() -> None:
    window = DeliveryWindow.pull()
    assert window.room == 0
    assert window.settled(3) == 0
    assert window.permit(2) == 2
    assert window.permit(1) == 1
    window.pushed()
    assert window.room == 2


@pytest.mark.parametrize("messages", [0, -1, -(2**31)])
def test_pull_mode_refuses_permits_that_are_not_positive(messages: int) -> None:
    window = DeliveryWindow.pull()
    with pytest.raises(InvalidCommand) as caught:
        window.permit(messages)
    assert caught.value.close_code == CloseCode.POLICY_VIOLATION
    assert caught.value.reason.startswith("3: ")
    assert window.permit(1) == window.room == 1


@given(window=st.integers(1, 1000), steps=st.lists(st.tuples(st.booleans(), st.integers(1, 50))))
def test_the_room_is_what_unacked_messages_leave_of_the_window(
    window: int, steps: list[tuple[bool, int]]
) -> None:
    flow, out = DeliveryWindow.push(window), 0
    for is_push, number in steps:
        if is_push:
            number = min(number, flow.room)
            flow.pushed(number)
            out += number
        else:
            number = min(number, out)
            out -= number
            assert flow.settled(number) == number
        assert flow.room == window - out
