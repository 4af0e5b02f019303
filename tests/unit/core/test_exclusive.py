"""Dispatch to one active consumer, rule by rule."""

from __future__ import annotations

import pytest

from broker.core.dispatchers.base import ReadEntry
from broker.core.dispatchers.choice import dispatcher_for
from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.errors import ConsumerAssignFailed, ConsumerBusy, InvalidFlow, SubscriptionBusy
from broker.core.hash_slots import SlotRange
from broker.core.position import Position
from tests.unit.core.dispatching import EXCLUSIVE, SHARED, at, consumer, send, shared


def test_exclusive_gives_everything_in_order_while_permits_last() -> None:
    only = consumer(1, 3)
    dispatcher = dispatcher_for(EXCLUSIVE)
    assert dispatcher.attach(only, EXCLUSIVE)
    plan = dispatcher.next_read()
    assert plan is not None
    assert plan.max_entries == 3
    entries = [ReadEntry(p, 2) for p in at(0, 1, 2)]
    assignments, left = dispatcher.assign(entries, plan)
    assert [a.entries for a in assignments] == [entries[:2]]
    assert left == entries[2:]
    assert not dispatcher.replays_unassigned
    assert (only.permits.balance, only.unacked_messages, dispatcher.next_read()) == (-1, 4, None)


def test_exclusive_redelivery_is_a_rewind_with_count_zero() -> None:
    """A request to redeliver one message redelivers everything unacked, as row S4.24 of behaviour.md says."""
    only = consumer(1, 10)
    dispatcher = dispatcher_for(EXCLUSIVE)
    dispatcher.attach(only, EXCLUSIVE)
    send(dispatcher, 0, 1, 2)
    plan = dispatcher.next_read()
    assert plan is not None
    assert dispatcher.redeliver(only, at(1))
    assert dispatcher.assign([ReadEntry(Position(1, 3), 1)], plan) == ([], [])
    assert (only.unacked_messages, dispatcher.redelivery_count(Position(1, 1))) == (0, 0)
    dispatcher.acked(Position(1, 2), 1, True)
    assert only.unacked_messages == 0, "delivered before the rewind"
    assert not dispatcher.redeliver(consumer(2), None)


def test_exclusive_counts_unacked_messages() -> None:
    only = consumer(1, 100)
    dispatcher = dispatcher_for(EXCLUSIVE)
    dispatcher.attach(only, EXCLUSIVE)
    send(dispatcher, *range(5))
    dispatcher.acked(Position(1, 3), 1, True)
    dispatcher.acked_through(Position(1, 1), 2)
    assert dispatcher.unacked_messages == 2
    assert dispatcher.has_pending(only, Position(1, 2))
    dispatcher.acked_through(Position(1, 4), 2)
    assert dispatcher.unacked_messages == 0
    send(dispatcher, 5, 6)
    dispatcher.moved(Position(1, 5))
    assert dispatcher.unacked_messages == 2
    dispatcher.moved(Position(1, 6))
    assert dispatcher.unacked_messages == 0


def test_second_exclusive_consumer_is_refused() -> None:
    dispatcher = dispatcher_for(EXCLUSIVE)
    first = consumer(1)
    dispatcher.attach(first, EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        dispatcher.attach(consumer(2), EXCLUSIVE)
    with pytest.raises(SubscriptionBusy):
        dispatcher.attach(consumer(2), SHARED)
    assert dispatcher.detach(consumer(2)) == []
    dispatcher.detach(first)
    assert dispatcher.attach(consumer(2), EXCLUSIVE)


def test_flow_of_nothing_is_refused() -> None:
    only = consumer(1)
    dispatcher = shared(only)
    with pytest.raises(InvalidFlow):
        dispatcher.flow(only, 0)


def test_an_exclusive_consumer_gets_the_hash_ranges_it_asks_for() -> None:
    reader = consumer(1, permits=3)
    reader.key_shared = KeySharedPolicy(sticky=True, ranges=(SlotRange(100, 199), SlotRange(300, 399)))
    dispatcher = dispatcher_for(EXCLUSIVE)
    dispatcher.attach(reader, EXCLUSIVE)
    slots = [100, 200, 399, 99, 150, 300, 301]
    entries = [ReadEntry(Position(1, number), 1, slot=slot) for number, slot in enumerate(slots)]
    plan = dispatcher.next_read()
    assert plan is not None
    (sent,), left = dispatcher.assign(entries, plan)
    assert [each.position.entry_id for each in sent.entries] == [0, 2, 4]
    assert [each.position.entry_id for each in left] == [5, 6]
    assert reader.permits.balance == 0
    reader.flow(5)
    plan = dispatcher.next_read()
    assert plan is not None
    assert dispatcher.assign([ReadEntry(Position(1, 8), 1, slot=7)], plan) == ([], [])
    assert reader.permits.balance == 5


def test_readers_whose_ranges_cover_everything_get_each_entry_without_a_key_once() -> None:
    got = []
    for key, bounds in enumerate((SlotRange(0, 32767), SlotRange(32768, 65535)), start=1):
        reader = consumer(key, permits=1000)
        reader.key_shared = KeySharedPolicy(sticky=True, ranges=(bounds,))
        dispatcher = dispatcher_for(EXCLUSIVE)
        dispatcher.attach(reader, EXCLUSIVE)
        got += send(dispatcher, *range(100))[key]
    assert sorted(got) == list(range(100))
    assert got != sorted(got)


def test_hash_ranges_of_an_exclusive_consumer_must_make_sense() -> None:
    reader = consumer(1)
    reader.key_shared = KeySharedPolicy(sticky=True, ranges=(SlotRange(5, 70_000),))
    dispatcher = dispatcher_for(EXCLUSIVE)
    with pytest.raises(ConsumerAssignFailed):
        dispatcher.attach(reader, EXCLUSIVE)
    assert dispatcher.active is None
