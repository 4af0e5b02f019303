"""Dispatch rules one by one; the model test covers their interleavings."""

from __future__ import annotations

import pytest

from broker.core.dispatchers.base import Dispatcher, ReadEntry, ReadKind
from broker.core.position import Position
from tests.unit.core.dispatching import SHARED, at, consumer, send, shared


def replay(dispatcher: Dispatcher) -> list[int]:
    """Return the entry ids that the dispatcher plans to replay next. This does not carry out the plan."""
    plan = dispatcher.next_read()
    assert plan is not None
    assert plan.kind is ReadKind.REPLAY
    return [position.entry_id for position in plan.positions]


def test_consumers_take_turns_by_priority_and_permits() -> None:
    """Each read takes one entry."""
    dispatcher = shared(
        consumer(1, 2), consumer(2, 1), consumer(3, 1), consumer(4, 2, priority=1), consumer(5, 1, priority=1)
    )
    order = [next(iter(send(dispatcher, entry_id))) for entry_id in range(7)]
    assert order == [1, 2, 3, 1, 4, 5, 4]
    assert not dispatcher.can_send()
    assert dispatcher.next_read() is None


def test_a_pick_takes_twenty_entries() -> None:
    dispatcher = shared(consumer(1, 100), consumer(2, 100))
    given = send(dispatcher, *range(50))
    assert given == {1: [*range(20), *range(40, 50)], 2: [*range(20, 40)]}


@pytest.mark.row("I7")
def test_a_batch_may_overshoot_once() -> None:
    """A consumer with any permits gets a whole batch, and owes the rest."""
    first, second = consumer(1, 5), consumer(2, 1)
    dispatcher = shared(first, second)
    assert send(dispatcher, 0, 1, 2, 3, messages=4) == {1: [0, 1], 2: [2]}
    assert (first.permits.balance, second.permits.balance) == (-3, -3)
    assert dispatcher.replay_entries == 1
    first.flow(3)
    assert dispatcher.next_read() is None
    first.flow(1)
    assert replay(dispatcher) == [3]


def test_unassigned_entries_are_replayed_before_new_reads() -> None:
    dispatcher = shared(consumer(1, 1))
    assert send(dispatcher, 0, 1, 2) == {1: [0]}
    assert dispatcher.replays_unassigned
    late = consumer(2, 10)
    dispatcher.attach(late, SHARED)
    assert send(dispatcher, 1, 2) == {2: [1, 2]}
    plan = dispatcher.next_read()
    assert plan is not None
    assert (plan.kind, plan.max_entries) == (ReadKind.NORMAL, 8)


def test_not_writable_counts_as_no_permits() -> None:
    stuck, other = consumer(1, 10), consumer(2, 10)
    dispatcher = shared(stuck, other)
    stuck.writable = False
    assert send(dispatcher, 0, 1) == {2: [0, 1]}
    other.writable = False
    assert not dispatcher.can_send()
    assert dispatcher.next_read() is None


def test_leaver_hands_over_at_once_with_counts_unchanged() -> None:
    leaver, stayer = consumer(1, 3), consumer(2)
    dispatcher = shared(leaver, stayer)
    send(dispatcher, 4, 5, 6)
    dispatcher.redeliver(leaver, at(5))
    leaver.flow(1)
    send(dispatcher, 5)
    assert dispatcher.detach(leaver) == at(4, 5, 6)
    stayer.flow(10)
    assert replay(dispatcher) == [4, 5, 6]
    assert [dispatcher.redelivery_count(p) for p in at(4, 5, 6)] == [0, 1, 0]


def test_last_leaver_clears_replay_and_counts() -> None:
    first, second = consumer(1, 5), consumer(2, 5)
    dispatcher = shared(first)
    send(dispatcher, 0, 1)
    dispatcher.redeliver(first, at(0))
    dispatcher.detach(first)
    assert (dispatcher.replay_entries, dispatcher.redelivery_count(Position(1, 0))) == (0, 0)
    assert dispatcher.attach(second, SHARED), "the read position must be rewound"
    assert not dispatcher.attach(consumer(3), SHARED)


def test_only_an_explicit_request_raises_the_count() -> None:
    """Two redeliveries on request: the counts are 0, 1, 2. An ack removes the counter."""
    only = consumer(1, 100)
    dispatcher = shared(only)
    position = Position(1, 0)
    seen = []
    for _ in range(3):
        send(dispatcher, 0)
        seen.append(dispatcher.redelivery_count(position))
        dispatcher.redeliver(only, None)
    assert seen == [0, 1, 2]
    dispatcher.acked(position, 1, True)
    assert (dispatcher.redelivery_count(position), dispatcher.replay_entries) == (0, 0)


def test_a_consumer_can_request_only_its_own_pending_entries() -> None:
    first, second = consumer(1, 1), consumer(2, 1)
    dispatcher = shared(first, second)
    send(dispatcher, 0, 1)
    assert not dispatcher.redeliver(first, at(1, 7))
    assert dispatcher.replay_entries == 0
    assert dispatcher.has_pending(second, Position(1, 1))
    assert not dispatcher.has_pending(first, Position(1, 1))
    assert dispatcher.is_pending(Position(1, 1))


def test_ack_through_another_consumer_credits_the_owner() -> None:
    owner, other = consumer(1, 5), consumer(2)
    dispatcher = shared(owner, other)
    send(dispatcher, 0, messages=5)
    dispatcher.acked(Position(1, 0), 2, False, other)
    assert (owner.unacked_messages, dispatcher.unacked_messages) == (3, 3)
    dispatcher.acked(Position(1, 0), 3, True, other)
    assert (owner.unacked_messages, dispatcher.unacked_messages, len(owner.pending)) == (0, 0, 0)


def test_consumer_blocks_at_its_limit_and_unblocks_at_half() -> None:
    """Permits that the client grants while its consumer is blocked are kept aside."""
    only = consumer(1, 100, max_unacked=4)
    dispatcher = shared(only)
    assert send(dispatcher, *range(10)) == {1: [0, 1, 2, 3]}
    assert (only.blocked, dispatcher.can_send(), only.permits.balance) == (True, False, 96)
    dispatcher.flow(only, 7)
    assert (only.permits.aside, only.permits.balance) == (7, 96)
    dispatcher.acked(Position(1, 0), 1, True)
    assert only.blocked
    dispatcher.acked(Position(1, 1), 1, True)
    assert (only.blocked, only.permits.aside, only.permits.balance) == (False, 0, 103)


def test_a_redelivery_request_unblocks_its_consumer() -> None:
    only = consumer(1, 100, max_unacked=4)
    dispatcher = shared(only)
    send(dispatcher, *range(10))
    dispatcher.redeliver(only, at(2))
    assert not only.blocked
    assert replay(dispatcher) == [2, 4, 5, 6, 7, 8, 9]


def test_blocked_subscription_replays_but_reads_nothing_new() -> None:
    first, second = consumer(1, 100), consumer(2, 100)
    dispatcher = shared(first, second, max_unacked=6)
    plan = dispatcher.next_read()
    assert plan is not None
    assert plan.max_entries == 6
    send(dispatcher, *range(6))
    assert dispatcher.blocked
    assert dispatcher.next_read() is None
    dispatcher.redeliver(first, at(0))
    assert dispatcher.blocked
    assert replay(dispatcher) == [0]
    for position in at(1, 2):
        dispatcher.acked(position, 1, True)
    assert dispatcher.blocked
    dispatcher.acked(Position(1, 3), 1, True)
    assert not dispatcher.blocked


def test_an_overtaken_plan_assigns_nothing_and_loses_nothing() -> None:
    only = consumer(1, 100)
    dispatcher = shared(only)
    send(dispatcher, 0, 1)
    dispatcher.redeliver(only, None)
    old = dispatcher.next_read()
    assert old is not None
    assert dispatcher.next_read() is not None
    assert not dispatcher.is_current(old)
    assert dispatcher.assign([ReadEntry(p, 1) for p in at(0, 1)], old) == ([], [])
    assert replay(dispatcher) == [0, 1]


def test_ack_during_a_replay_read_is_not_sent() -> None:
    only = consumer(1, 100)
    dispatcher = shared(only)
    send(dispatcher, 0, 1, 2)
    dispatcher.redeliver(only, None)
    plan = dispatcher.next_read()
    assert plan is not None
    dispatcher.acked(Position(1, 1), 1, True)
    assignments, left = dispatcher.assign([ReadEntry(p, 1) for p in at(0, 1)], plan)
    assert [e.position.entry_id for a in assignments for e in a.entries] == [0]
    assert left == []
    assert replay(dispatcher) == [2], "entries missing from the read are still to be replayed"


def test_an_act_drops_pending_and_replayed_entries_below_its_target() -> None:
    """The consumers stay attached."""
    only = consumer(1, 4, max_unacked=100)
    dispatcher = shared(only)
    send(dispatcher, *range(6))
    dispatcher.redeliver(only, at(0, 3))
    dispatcher.moved(Position(1, 4))
    assert (only.unacked_messages, dispatcher.unacked_messages, list(only.pending)) == (0, 0, [])
    dispatcher.flow(only, 5)
    assert replay(dispatcher) == [5]
    assert dispatcher.redelivery_count(Position(1, 3)) == 0


def test_discarded_entry_is_forgotten() -> None:
    """The broker finds the entry corrupt when it reads it again."""
    only = consumer(1, 10)
    dispatcher = shared(only)
    send(dispatcher, 0)
    dispatcher.redeliver(only, None)
    plan = dispatcher.next_read()
    assert plan is not None
    dispatcher.discard(Position(1, 0))
    assert dispatcher.assign([], plan) == ([], [])
    assert (dispatcher.replay_entries, only.permits.balance, only.unacked_messages) == (0, 9, 0)


def chunk(entry_id: int, uuid: str, *, last: bool = False) -> ReadEntry:
    return ReadEntry(Position(1, entry_id), 1, uuid, last)


def test_chunks_of_one_message_go_to_one_consumer() -> None:
    first, second = consumer(1, 2), consumer(2, 9)
    dispatcher = shared(first, second)
    given = send(
        dispatcher, chunk(0, "a"), chunk(1, "b"), chunk(2, "a"), chunk(3, "b"), chunk(4, "a", last=True), 5
    )
    assert given == {1: [0, 2], 2: [1, 3, 5]}
    assert dispatcher.replay_entries == 1
    first.flow(1)
    assert send(dispatcher, chunk(4, "a", last=True)) == {1: [4]}


def test_chunks_of_a_leaver_are_free_again() -> None:
    first, second = consumer(1, 1), consumer(2)
    dispatcher = shared(first, second)
    send(dispatcher, chunk(0, "a"))
    dispatcher.detach(first)
    second.flow(5)
    assert send(dispatcher, chunk(0, "a"), chunk(1, "a")) == {2: [0]}
    assert send(dispatcher, chunk(1, "a")) == {2: [1]}


def test_reads_shrink_with_the_size_of_batches() -> None:
    """A read asks for as many entries as the permits allow, at the average number of messages in an entry."""
    only = consumer(1, 100_000)
    dispatcher = shared(only)
    for entry_id in range(40):
        send(dispatcher, entry_id, messages=1000)
    only.flow(1)
    plan = dispatcher.next_read()
    assert plan is not None
    assert plan.max_entries == 61
