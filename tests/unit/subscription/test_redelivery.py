"""Redelivery by the machine: after deadlines, when consumers leave, on Failover. Whatever happens, nothing is lost."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.position import Position
from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType
from broker.subscription.machine.effects import AskConsumer, TellActive, TellEnd, Watch, Wish
from broker.subscription.moves.staged import StagedMove
from broker.subscription.runner import SubscriptionRunner
from tests.unit.subscription.machines import (
    EXCLUSIVE,
    FAILOVER,
    FAILOVER_DELAY_MS,
    SHARED,
    START_MS,
    Machine,
)


def test_an_unacked_delivery_is_overdue_in_time_and_an_acked_one_is_not() -> None:
    machine = Machine()
    member, _ = machine.attach(1, permits=10, ack_timeout_ms=1000)
    first, second = machine.publish(1, 1)
    assert machine.pump() == [Watch(START_MS + 1000)]
    machine.ack(member, first)
    redelivery = machine.machine.redelivery
    assert redelivery.time_passed(START_MS + 999) == (0, [])
    entries, [asked] = redelivery.time_passed(redelivery.next_due_ms() or 0)
    assert isinstance(asked, AskConsumer)
    assert (entries, asked.key, [each.position for each in asked.due]) == (1, 1, [second])
    assert redelivery.time_passed(START_MS + 5000) == (0, [])


def test_the_deadlines_of_a_consumer_that_leaves_are_forgotten() -> None:
    machine = Machine()
    member, _ = machine.attach(1, permits=10, ack_timeout_ms=1000)
    machine.attach(2)
    machine.publish(1)
    machine.pump()
    assert machine.machine.redelivery.next_due_ms() is not None
    machine.machine.gone(member, machine.now_ms)
    assert machine.machine.redelivery.next_due_ms() is None


def test_on_exclusive_a_request_redelivers_everything_unacked_in_order() -> None:
    machine = Machine(EXCLUSIVE)
    member, _ = machine.attach(1, permits=10)
    positions = machine.publish(1, 1, 1)
    machine.pump()
    machine.ack(member, positions[1])
    assert list(
        machine.machine.redelivery.redeliver(member, [positions[2]], StoryEvent.ASKED_AGAIN, machine.now_ms)
    ) == [Wish.CHANGED, Wish.SEND]
    machine.pump()
    assert machine.sent[1] == [*positions, positions[0], positions[2]]


def test_a_deadline_is_ignored_for_entries_of_another_consumer() -> None:
    machine = Machine()
    holder, _ = machine.attach(1, permits=10)
    [position] = machine.publish(1)
    machine.pump()
    other, _ = machine.attach(2)
    redelivery = machine.machine.redelivery
    redelivery.redeliver_at(other, [position, Position(9, 9)], START_MS + 100, START_MS)
    assert redelivery.next_due_ms() is None
    redelivery.redeliver_at(holder, [position], START_MS + 100, START_MS)
    assert redelivery.next_due_ms() is not None


def test_failover_switches_in_time_tells_all_consumers_first_and_starts_at_mark_delete() -> None:
    machine = Machine(FAILOVER)
    _, effects = machine.attach(1, permits=10)
    assert [type(each) for each in effects[:1]] == [Watch]
    redelivery = machine.machine.redelivery
    machine.now_ms = redelivery.next_due_ms() or machine.now_ms
    redelivery.switch(machine.now_ms)
    machine.publish(1, 1)
    machine.pump()
    assert len(machine.sent[1]) == 2
    second, _ = machine.attach(2, permits=10)
    machine.machine.gone(machine.state.members[1], machine.now_ms)
    machine.now_ms += FAILOVER_DELAY_MS
    effects = redelivery.switch(machine.now_ms)
    assert effects.index(TellActive(2, waits=False)) < effects.index(Wish.SEND)
    machine.pump()
    assert machine.state.dispatcher.active is second.dispatch
    assert machine.sent[2] == machine.sent[1]


def test_messages_asked_for_again_during_a_move_that_is_taken_back_are_delivered_again() -> None:
    machine = Machine(EXCLUSIVE)
    member, _ = machine.attach(1, permits=10)
    positions = machine.publish(1, 1, 1)
    machine.pump()
    machine.machine.begin_move()
    before = machine.state.cursor.snapshot()
    machine.state.cursor.move_mark_delete(positions[-1])
    staged = StagedMove(cast(SubscriptionRunner, None), machine.state, before, None)
    machine.machine.redelivery.redeliver(member, None, StoryEvent.ASKED_AGAIN, machine.now_ms)
    staged.take_back()
    machine.machine.end_move()
    machine.pump()
    assert machine.sent[1] == positions * 2


def test_the_cursor_of_a_reader_is_forgotten_with_its_last_consumer_unless_the_consumer_seeks() -> None:
    for move in (None, "trim", "seek"):
        machine = Machine(EXCLUSIVE, is_durable=False)
        member, _ = machine.attach(1)
        if move is not None:
            machine.machine.begin_move()
        if move == "seek":
            machine.machine.forget_acks()
        is_forgotten = Wish.FORGET in machine.machine.gone(member, machine.now_ms)
        assert is_forgotten is (move != "seek")
        assert machine.machine.gone(member, machine.now_ms) == ()


def test_consumers_with_permits_learn_once_of_the_end_when_all_is_acked() -> None:
    machine = Machine()
    member, _ = machine.attach(1, permits=10)
    machine.attach(2)
    [position] = machine.publish(1)
    machine.pump()
    assert machine.machine.topic_ended() == ()
    assert machine.ack(member, position)[-1] == TellEnd([1])
    assert machine.machine.topic_ended() == ()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "flow", "ack", "redeliver", "leave", "come", "trim", "move"]),
        st.integers(1, 3),
        st.integers(0, 6),
    ),
    max_size=40,
)


@pytest.mark.parametrize("type_", [SHARED, SubscriptionType.KEY_SHARED, EXCLUSIVE])
@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_every_stored_entry_is_finally_delivered_and_acked(
    type_: SubscriptionType, steps: list[tuple[str, int, int]]
) -> None:
    machine = Machine(type_)
    for what, key, number in steps:
        member = machine.state.members.get(key)
        if what == "publish":
            machine.publish(*[1 + number % 3] * number)
        elif what == "come" and member is None and (type_ is not EXCLUSIVE or not machine.state.members):
            machine.attach(key)
        elif what == "trim":
            machine.cached.clear()  # empties the cache; the log keeps everything
        elif what == "move" and machine.log.positions():
            machine.machine.begin_move()
            machine.state.cursor.reset_to(machine.log.positions()[0])
            machine.machine.end_move()
            machine.machine.moved()
        elif member is not None:
            _by_a_consumer(machine, what, key, number)
        _pump_with_reads(machine)
        for each in machine.state.members.values():
            assert each.dispatch.unacked_messages >= 0
    for key in list(machine.state.members):
        machine.machine.gone(machine.state.members[key], machine.now_ms)
    machine.sent.clear()
    last, _ = machine.attach(9, permits=10_000)
    _pump_with_reads(machine)
    unacked = [each for each in machine.log.positions() if not machine.state.cursor.is_acked(each)]
    assert sorted(machine.sent.get(9, [])) == unacked
    machine.ack(last, *unacked)
    assert machine.state.cursor.backlog_messages == 0
    assert last.dispatch.unacked_messages == 0


def _by_a_consumer(machine: Machine, what: str, key: int, number: int) -> None:
    member, sent = machine.state.members[key], machine.sent.get(key, [])
    if what == "flow" and number:
        machine.machine.flow(member, number, machine.now_ms)
    elif what == "ack":
        machine.ack(member, *sent[:number])
    elif what == "redeliver":
        machine.machine.redelivery.redeliver(
            member, sent[:number] if number else None, StoryEvent.ASKED_AGAIN, machine.now_ms
        )
    elif what == "leave":
        machine.machine.gone(member, machine.now_ms)


def _pump_with_reads(machine: Machine) -> None:
    """Send everything that can be sent, and read the entries that are not in memory. This does not change the cache."""
    while machine.pump():
        machine.machine.sending.entries_read([machine.entry(each) for each in machine.log.positions()])
        machine.pump()
        machine.machine.sending.forget_read()
