"""Acks in the machine: what they change at once, and which effects they return."""

from __future__ import annotations

import pytest

from broker.core.errors import InvalidAck, ServiceNotReady
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType
from broker.subscription.machine.effects import Effect, Say, Settle, SettleWhenDurable, Wish
from tests.unit.subscription.machines import EXCLUSIVE, SHARED, Machine, Receipts

AFTERWARDS: list[Effect] = [Wish.CHANGED, Wish.SEND]


def answers(effects: list[Effect]) -> list[Settle]:
    """Return the receipts among the effects."""
    return [each for each in effects if isinstance(each, Settle)]


def test_an_ack_is_stored_reported_and_makes_room() -> None:
    machine = Machine()
    member, _ = machine.attach(permits=10)
    [first, second] = machine.publish(1, 3)
    machine.pump()
    assert machine.ack(member, first, second) == [Wish.DIRTY, *AFTERWARDS]
    assert (machine.state.cursor.mark_delete, member.messages_acked) == (second, 4)
    assert member.dispatch.unacked_messages == 0


def test_a_receipt_waits_for_the_store_where_there_is_one() -> None:
    for is_durable in (True, False):
        machine = Machine(is_durable=is_durable)
        member, _ = machine.attach(permits=10)
        [position] = machine.publish(1)
        machine.pump()
        receipts = Receipts()
        effect, *rest = machine.ack(member, position, receipt=receipts)
        assert isinstance(effect, SettleWhenDurable if is_durable else Settle)
        assert rest == AFTERWARDS


def test_an_ack_of_an_unstored_entry_is_answered_with_the_reason_and_logged_at_growing_intervals() -> None:
    machine = Machine()
    member, _ = machine.attach()
    machine.publish(1)
    said = 0
    for _ in range(8):
        effects = machine.ack(member, Position(1, 99), receipt=Receipts())
        said += sum(isinstance(each, Say) for each in effects)
        [answer] = answers(effects)
        assert isinstance(answer.error, InvalidAck)
        assert Wish.DIRTY in effects  # other acks of the same command may have been applied
    assert (said, machine.state.counters.invalid_acks) == (4, 8)


def test_a_cumulative_ack_on_shared_changes_nothing_and_succeeds() -> None:
    machine = Machine(SHARED)
    member, _ = machine.attach(permits=10)
    positions = machine.publish(1, 1)
    machine.pump()
    effects = machine.ack(member, positions[1], cumulative=True, receipt=Receipts())
    assert [each.error for each in answers(effects)] == [None]
    assert machine.state.cursor.backlog_messages == 2
    assert machine.state.counters.ignored_acks == 1


def test_a_cumulative_ack_before_a_ledgers_first_entry_acks_the_ledgers_before() -> None:
    machine = Machine(EXCLUSIVE)
    member, _ = machine.attach(permits=10)
    *_, last = machine.publish(1, 3)
    machine.log.roll()
    [batch] = machine.publish(2)
    machine.pump()
    # Clients send this position for an ack of the first message of `batch`.
    before = Position(batch.ledger_id, -1)
    for _ in range(2):
        effects = machine.ack(member, before, cumulative=True, receipt=Receipts())
        assert [type(each) for each in effects][:1] == [SettleWhenDurable]
        assert machine.state.cursor.backlog_messages == 2
    assert machine.state.cursor.mark_delete == last
    effects = machine.ack(member, Position(batch.ledger_id + 7, -1), cumulative=True, receipt=Receipts())
    assert isinstance(answers(effects)[0].error, InvalidAck)


def test_acks_keep_their_order_while_counts_are_missing() -> None:
    machine = Machine(EXCLUSIVE, indexed=False)
    member, _ = machine.attach(permits=10)
    machine.log.indexed = False
    first, second, third = machine.publish(2, 2, 2)
    acks = machine.machine.acks
    assert machine.ack(member, second) == [Wish.APPLY_LATE_ACKS]
    machine.log.load(1, 0, 0)
    # The counts of this ack's entry are known, but the ack waits for the earlier one.
    assert machine.ack(member, first, receipt=Receipts()) == []
    with pytest.raises(IndexMissing):
        acks.apply_first_late()
    machine.log.load(1, 0, 2)
    assert list(acks.apply_first_late()) == [Wish.DIRTY, *AFTERWARDS]
    assert machine.state.cursor.mark_delete < first
    assert isinstance(acks.apply_first_late()[0], SettleWhenDurable)
    assert acks.first_late is None
    assert machine.state.cursor.mark_delete == second
    assert machine.ack(member, third) == [Wish.DIRTY, *AFTERWARDS]


def test_a_late_ack_is_refused_once_the_cursor_was_moved_even_behind_another() -> None:
    machine = Machine(EXCLUSIVE, indexed=False)
    member, _ = machine.attach(permits=10)
    first, second = machine.publish(2, 2)
    acks = machine.machine.acks
    machine.ack(member, first, receipt=Receipts())
    machine.ack(member, second, receipt=Receipts())
    machine.log.load(1, 0, 1)
    machine.machine.begin_move()
    machine.machine.forget_acks()
    machine.state.cursor.reset_to(first)
    machine.machine.end_move()
    for _ in range(2):
        with pytest.raises(ServiceNotReady):
            acks.apply_first_late()
        effects = list(acks.refuse_first_late(ServiceNotReady("moved")))
        assert effects[0] is Wish.DIRTY
        assert [type(each.error) for each in answers(effects)] == [ServiceNotReady]
    assert acks.first_late is None
    assert machine.state.cursor.backlog_messages == 4


def test_late_acks_survive_a_move_that_keeps_the_consumers() -> None:
    machine = Machine(indexed=False)
    member, _ = machine.attach(permits=10)
    first, second, third, last = machine.publish(2, 2, 2, 2)
    machine.pump()
    acks = machine.machine.acks
    machine.ack(member, second)
    machine.machine.begin_move()
    machine.log.load(1, 0, 3)
    machine.ack(member, third)
    machine.state.cursor.move_mark_delete(first)
    assert list(acks.apply_first_late()) == []
    assert acks.first_late is None
    machine.machine.moved()
    machine.machine.end_move()
    put_off = acks.take_put_off()
    assert [command.acks[0].position for command in put_off] == [second, third]
    for command in put_off:
        machine.ack(member, command.acks[0].position)
    assert machine.state.cursor.mark_delete == third
    assert list(member.dispatch.pending) == [last]


def test_a_late_ack_counts_after_a_skip() -> None:
    machine = Machine(indexed=False)
    member, _ = machine.attach(permits=10)
    first, second = machine.publish(2, 2)
    machine.pump()
    machine.ack(member, second)
    machine.log.load(1, 0, 1)
    machine.machine.begin_move()
    machine.state.cursor.move_mark_delete(first)
    machine.machine.moved()
    machine.machine.end_move()
    machine.machine.acks.apply_first_late()
    assert machine.state.cursor.backlog_messages == 0


def test_acks_wait_for_a_move_unless_it_forgets_them() -> None:
    machine = Machine()
    member, _ = machine.attach(permits=10)
    [first, second] = machine.publish(1, 1)
    machine.pump()
    machine.machine.begin_move()
    assert machine.ack(member, first) == []
    machine.machine.end_move()
    assert [each.acks[0].position for each in machine.machine.acks.take_put_off()] == [first]
    machine.machine.begin_move()
    machine.ack(member, first, receipt=Receipts())
    effects = [*machine.machine.forget_acks(), *machine.ack(member, second, receipt=Receipts())]
    machine.machine.end_move()
    assert [type(each.error) for each in answers(effects)] == [ServiceNotReady, ServiceNotReady]
    assert machine.machine.acks.take_put_off() == []
    assert machine.state.cursor.backlog_messages == 2


@pytest.mark.parametrize("type_", [SHARED, EXCLUSIVE])
def test_the_time_from_delivery_to_ack_is_counted_by_message(type_: SubscriptionType) -> None:
    machine = Machine(type_)
    member, _ = machine.attach(permits=100)
    first, second = machine.publish(1, 3)
    machine.pump()
    machine.now_ms += 20
    [third] = machine.publish(1)
    machine.pump()
    machine.now_ms += 20
    machine.ack(member, second, third)
    machine.ack(member, second)  # this entry was acked before
    machine.now_ms += 1000
    machine.ack(member, first)
    counts = machine.state.counters.ack_latencies.take()
    # One message was acked after 20 ms, three after 40 ms, and one after 1040 ms.
    assert counts == [0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 1]


def test_a_cumulative_ack_counts_each_message_from_its_own_delivery() -> None:
    machine = Machine(EXCLUSIVE)
    member, _ = machine.attach(permits=100)
    machine.publish(1, 3)
    machine.pump()
    machine.now_ms += 100
    machine.publish(2)
    [last] = machine.publish(1)
    machine.pump()
    machine.now_ms += 2
    machine.ack(member, last, cumulative=True)
    counts = machine.state.counters.ack_latencies.take()
    assert counts == [0, 0, 3, 0, 0, 0, 0, 4]


def test_a_redelivered_message_counts_from_its_last_delivery() -> None:
    for type_ in (SHARED, EXCLUSIVE):
        machine = Machine(type_)
        member, _ = machine.attach(permits=100)
        [position] = machine.publish(1)
        machine.pump()
        machine.now_ms += 5000
        machine.machine.redelivery.redeliver(member, None, StoryEvent.ASKED_AGAIN, machine.now_ms)
        machine.pump()
        machine.now_ms += 1
        machine.ack(member, position)
        assert machine.state.counters.ack_latencies.take() == [0, 1]
