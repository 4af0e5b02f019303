"""Key_Shared rule by rule; the model test covers interleavings of the rules."""

from __future__ import annotations

import pytest

from broker.core.dispatchers import key_shared, replay_queues
from broker.core.dispatchers.base import DispatchConsumer, ReadEntry, ReadKind, ReadPlan
from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.dispatchers.multiple_active import LOOK_AHEAD_PER_CONSUMER, LOOK_AHEAD_PER_SUBSCRIPTION
from broker.core.errors import ConsumerAssignFailed, SubscriptionBusy
from broker.core.hash_slots import SlotRange, slot_of_position
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from tests.support.steps import counted_steps

KEY_SHARED = SubscriptionType.KEY_SHARED
LOW, HIGH, TOP = 100, 40_000, 60_000  # slots


def consumer(key: int, permits: int = 0, *ranges: tuple[int, int], max_unacked: int = 0) -> DispatchConsumer:
    """Make a consumer with sticky ranges, so that a test chooses which slots it owns."""
    policy = KeySharedPolicy(sticky=True, ranges=tuple(SlotRange(*each) for each in ranges))
    made = DispatchConsumer(key=key, name=f"c{key}", key_shared=policy, max_unacked=max_unacked)
    if permits:
        made.flow(permits)
    return made


def sticky(
    *consumers: DispatchConsumer,
    out_of_order: bool = False,
    max_unacked: int = 0,
    look_ahead: int = LOOK_AHEAD_PER_CONSUMER,
    max_look_ahead: int = LOOK_AHEAD_PER_SUBSCRIPTION,
) -> KeySharedDispatcher:
    dispatcher = KeySharedDispatcher(
        policy=KeySharedPolicy(sticky=True, ranges=(SlotRange(0, 0),), allow_out_of_order=out_of_order),
        max_unacked=max_unacked,
        look_ahead=look_ahead,
        max_look_ahead=max_look_ahead,
    )
    for each in consumers:
        dispatcher.attach(each, KEY_SHARED)
    return dispatcher


def entry(entry_id: int, slot: int = LOW, *, uuid: str | None = None, last: bool = False) -> ReadEntry:
    return ReadEntry(Position(1, entry_id), 1, uuid, last, slot)


def plan_of(dispatcher: KeySharedDispatcher, kind: ReadKind) -> ReadPlan:
    plan = dispatcher.next_read()
    assert plan is not None
    assert plan.kind is kind
    return plan


def read(
    dispatcher: KeySharedDispatcher, *entries: ReadEntry, kind: ReadKind = ReadKind.NORMAL
) -> dict[int, list[int]]:
    assignments, _ = dispatcher.assign(entries, plan_of(dispatcher, kind))
    return {each.consumer.key: [entry.position.entry_id for entry in each.entries] for each in assignments}


def replay(dispatcher: KeySharedDispatcher, *entries: ReadEntry) -> dict[int, list[int]]:
    """Replay the positions that the plan names, and return the entry ids that each consumer got.

    `entries` are what the log returns for these positions, with their slots.
    """
    plan = plan_of(dispatcher, ReadKind.REPLAY)
    by_position = {each.position: each for each in entries}
    assignments, _ = dispatcher.assign([by_position[position] for position in plan.positions], plan)
    return {each.consumer.key: [entry.position.entry_id for entry in each.entries] for each in assignments}


def ack(dispatcher: KeySharedDispatcher, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        dispatcher.acked(Position(1, entry_id), 1, True)


def test_a_key_goes_to_the_owner_of_its_slot() -> None:
    dispatcher = sticky(consumer(1, 10, (0, 30_000)), consumer(2, 10, (30_001, 65_535)))
    assert read(dispatcher, entry(0), entry(1, HIGH), entry(2), entry(3, TOP)) == {1: [0, 2], 2: [1, 3]}


def test_without_permits_a_key_and_its_later_entries_wait_while_others_flow() -> None:
    poor, rich = consumer(1, 1, (0, 30_000)), consumer(2, 10, (30_001, 65_535))
    dispatcher = sticky(poor, rich)
    assert read(dispatcher, entry(0), entry(1), entry(2, HIGH), entry(3)) == {1: [0], 2: [2]}
    assert dispatcher.replay_entries == 2
    assert read(dispatcher, entry(4), entry(5, HIGH)) == {2: [5]}
    dispatcher.flow(poor, 2)
    assert replay(dispatcher, *(entry(n) for n in (1, 3, 4))) == {1: [1, 3]}


def test_later_entries_of_a_key_wait_behind_its_replays() -> None:
    """Permits that arrive while new entries are being read must not let the new entries overtake."""
    poor, rich = consumer(1, 0, (0, 30_000)), consumer(2, 10, (30_001, 65_535))
    dispatcher = sticky(poor, rich)
    assert read(dispatcher, entry(0)) == {}
    plan = plan_of(dispatcher, ReadKind.NORMAL)
    dispatcher.flow(poor, 5)
    assert dispatcher.assign([entry(1)], plan)[0] == []
    assert replay(dispatcher, entry(0), entry(1)) == {1: [0, 1]}


@pytest.mark.row("I9")
def test_a_slot_drains_at_its_old_owner_before_the_new_one_gets_it() -> None:
    """The slot moves when a consumer joins or leaves. Messages in other slots are still sent meanwhile."""
    wide, other = consumer(1, 10, (0, 65_535)), consumer(2, 10, (30_001, 65_535))
    dispatcher = KeySharedDispatcher()
    for each in (wide, other):
        each.key_shared = KeySharedPolicy()
    dispatcher.attach(wide, KEY_SHARED)
    assert read(dispatcher, *(entry(n, slot) for n, slot in enumerate(range(1, 60_000, 6_000)))) == {
        1: list(range(10))
    }
    dispatcher.attach(other, KEY_SHARED)
    (_, taken) = dispatcher.ranges()
    moved = [
        slot for slot in range(1, 60_000, 6_000) if any(first <= slot <= last for first, last in taken.ranges)
    ]
    assert moved
    assert [
        (each.slot, each.pending_at, each.owner, each.pending_entries) for each in dispatcher.draining()
    ] == [(slot, wide, other, 1) for slot in moved]
    late = [entry(20 + n, slot) for n, slot in enumerate(moved)]
    assert read(dispatcher, *late) == {}
    assert [each.waiting_entries for each in dispatcher.draining()] == [1] * len(moved)
    first_id = range(1, 60_000, 6_000).index(moved[0])
    ack(dispatcher, first_id)
    assert [each.slot for each in dispatcher.draining()] == moved[1:]
    assert replay(dispatcher, late[0]) == {2: [20]}


def test_a_slot_whose_consumer_attaches_again_while_it_drains_continues_at_once() -> None:
    dispatcher = sticky(consumer(1, 10, (0, 30_000)))
    first = dispatcher.consumers[0]
    assert read(dispatcher, entry(0)) == {1: [0]}
    assert dispatcher.detach(first) == [Position(1, 0)]
    dispatcher.attach(first, KEY_SHARED)
    assert read(dispatcher, entry(0), entry(1)) == {1: [0, 1]}


def test_a_leavers_keys_come_to_the_others_in_order() -> None:
    leaver, stayer = consumer(1, 10), consumer(2, 0)
    for each in (leaver, stayer):
        each.key_shared = KeySharedPolicy()
    dispatcher = KeySharedDispatcher()
    dispatcher.attach(leaver, KEY_SHARED)
    assert read(dispatcher, entry(0), entry(1, HIGH), entry(2)) == {1: [0, 1, 2]}
    dispatcher.attach(stayer, KEY_SHARED)
    dispatcher.detach(leaver)
    dispatcher.flow(stayer, 10)
    assert replay(dispatcher, entry(0), entry(1, HIGH), entry(2)) == {2: [0, 1, 2]}
    assert read(dispatcher, entry(3)) == {2: [3]}
    assert dispatcher.draining() == []


def test_a_replay_plan_is_dropped_when_a_consumer_leaves() -> None:
    """The entries that the plan reads must not overtake the entries that the leaving consumer gives back."""
    only, other = consumer(1, 2), consumer(2, 10)
    for each in (only, other):
        each.key_shared = KeySharedPolicy()
    dispatcher = KeySharedDispatcher()
    dispatcher.attach(only, KEY_SHARED)
    assert read(dispatcher, entry(0), entry(1), entry(2)) == {1: [0, 1]}
    dispatcher.flow(only, 1)
    plan = plan_of(dispatcher, ReadKind.REPLAY)
    assert plan.positions == (Position(1, 2),)
    dispatcher.attach(other, KEY_SHARED)
    dispatcher.detach(only)
    assert not dispatcher.is_current(plan)
    assert replay(dispatcher, *(entry(n) for n in range(3))) == {2: [0, 1, 2]}


def test_entries_missing_from_a_replay_read_are_not_overtaken() -> None:
    only = consumer(1, 3, (0, 65_535))
    dispatcher = sticky(only)
    read(dispatcher, entry(0), entry(1, HIGH), entry(2))
    dispatcher.redeliver(only, None)
    dispatcher.flow(only, 5)
    plan = plan_of(dispatcher, ReadKind.REPLAY)
    assignments, left = dispatcher.assign([entry(1, HIGH), entry(2)], plan)
    assert [each.position.entry_id for a in assignments for each in a.entries] == [1]
    assert [each.position.entry_id for each in left] == [2]
    assert replay(dispatcher, entry(0), entry(2)) == {1: [0, 2]}


def test_reading_ahead_stops_when_enough_waits() -> None:
    stalled, eager = consumer(1, 0, (0, 30_000)), consumer(2, 100, (30_001, 65_535))
    dispatcher = sticky(stalled, eager, look_ahead=3, max_look_ahead=5)
    plan = plan_of(dispatcher, ReadKind.NORMAL)
    assert plan.max_entries == 100
    assert dispatcher.assign([entry(n) for n in range(4)], plan)[0] == []
    assert plan_of(dispatcher, ReadKind.NORMAL).max_entries == 1
    assert read(dispatcher, entry(4)) == {}
    assert dispatcher.next_read() is None, "5 wait, though consumer 2 has permits"
    dispatcher.flow(stalled, 1)
    assert replay(dispatcher, *(entry(n) for n in range(5))) == {1: [0]}
    assert read(dispatcher, entry(5, HIGH)) == {2: [5]}


def test_entries_of_an_uncovered_slot_wait_for_a_consumer_that_covers_it() -> None:
    only = consumer(1, 10, (0, 9))
    dispatcher = sticky(only)
    assert read(dispatcher, entry(0, 5), entry(1, 10), entry(2, 10)) == {1: [0]}
    assert plan_of(dispatcher, ReadKind.NORMAL)
    dispatcher.attach(consumer(2, 10, (10, 20)), KEY_SHARED)
    assert replay(dispatcher, entry(1, 10), entry(2, 10)) == {2: [1, 2]}


def test_overlapping_ranges_and_other_modes_are_refused() -> None:
    dispatcher = sticky(consumer(1, 10, (0, 100)))
    with pytest.raises(ConsumerAssignFailed, match="overlaps"):
        dispatcher.attach(consumer(2, 10, (100, 200)), KEY_SHARED)
    auto = DispatchConsumer(key=3, name="auto")
    with pytest.raises(SubscriptionBusy, match="another Key_Shared mode"):
        dispatcher.attach(auto, KEY_SHARED)
    loose = DispatchConsumer(key=4, name="loose", key_shared=KeySharedPolicy(allow_out_of_order=True))
    strict = KeySharedDispatcher()
    strict.attach(auto, KEY_SHARED)
    with pytest.raises(SubscriptionBusy):
        strict.attach(loose, KEY_SHARED)
    assert len(dispatcher.consumers) == len(strict.consumers) == 1


def test_a_moved_key_goes_to_its_new_owner_at_once_if_order_does_not_matter() -> None:
    policy = KeySharedPolicy(allow_out_of_order=True)
    dispatcher = KeySharedDispatcher(policy=policy)
    first = DispatchConsumer(key=1, name="c1", key_shared=policy)
    first.flow(100)
    dispatcher.attach(first, KEY_SHARED)
    slots = list(range(1, 65_000, 500))
    dispatcher.assign(
        [entry(n, slot) for n, slot in enumerate(slots[:100])], plan_of(dispatcher, ReadKind.NORMAL)
    )
    second = DispatchConsumer(key=2, name="c2", key_shared=policy)
    second.flow(100)
    dispatcher.attach(second, KEY_SHARED)
    (_, taken) = dispatcher.ranges()
    moved = [s for s in slots[:100] if any(first <= s <= last for first, last in taken.ranges)]
    assert moved
    assert read(dispatcher, entry(500, moved[0])) == {2: [500]}
    assert dispatcher.draining() == []


def test_an_entry_of_a_moved_key_waits_for_the_new_owner_if_order_does_not_matter() -> None:
    policy = KeySharedPolicy(allow_out_of_order=True)
    dispatcher = KeySharedDispatcher(policy=policy, ring_points=0)
    old, new = (DispatchConsumer(key=key, name=f"c{key}", key_shared=policy) for key in (1, 2))
    old.flow(10)
    dispatcher.attach(old, KEY_SHARED)
    assert read(dispatcher, entry(0)) == {1: [0]}
    dispatcher.attach(new, KEY_SHARED)
    assert read(dispatcher, entry(1)) == {}
    found = dispatcher.most_waiting()
    assert found is not None
    assert (found.slot, found.consumer, found.is_draining) == (LOW, new, False)


def test_entries_without_a_key_are_spread() -> None:
    dispatcher = KeySharedDispatcher()
    for key in (1, 2, 3):
        made = DispatchConsumer(key=key, name=f"c{key}")
        made.flow(1000)
        dispatcher.attach(made, KEY_SHARED)
    shares: dict[int, int] = {}
    for start in range(0, 900, 100):
        for key, ids in read(dispatcher, *(entry(n, 0) for n in range(start, start + 100))).items():
            shares[key] = shares.get(key, 0) + len(ids)
    assert sum(shares.values()) == 900
    assert min(shares.values()) > 100


def test_the_rest_of_a_chunked_message_follows_its_beginning() -> None:
    """The consumer cannot ack anything before it has all chunks, so the last chunks must not wait for its acks."""
    first, second = consumer(1, 10), consumer(2, 10)
    for each in (first, second):
        each.key_shared = KeySharedPolicy()
    dispatcher = KeySharedDispatcher()
    dispatcher.attach(first, KEY_SHARED)
    slots = range(1, 65_000, 1000)
    dispatcher.flow(first, 200)
    read(dispatcher, *(entry(n, slot, uuid=f"u{slot}") for n, slot in enumerate(slots)))
    dispatcher.attach(second, KEY_SHARED)
    (slot, *_) = [each.slot for each in dispatcher.draining()]
    first.writable = False
    assert read(dispatcher, entry(100, slot), entry(101, slot, uuid=f"u{slot}", last=True)) == {}
    first.writable = True
    assert replay(dispatcher, entry(101, slot, uuid=f"u{slot}", last=True)) == {1: [101]}
    ack(dispatcher, slots.index(slot), 101)
    assert replay(dispatcher, entry(100, slot)) == {2: [100]}


def test_a_chunk_does_not_stay_behind_when_its_slot_has_drained() -> None:
    """A client may ack the first chunk of a message alone."""
    first, second = consumer(1, 64), consumer(2, 10)
    for each in (first, second):
        each.key_shared = KeySharedPolicy()
    dispatcher = KeySharedDispatcher()
    dispatcher.attach(first, KEY_SHARED)
    slots = range(1, 65_000, 1000)
    dispatcher.flow(first, 1)
    read(dispatcher, *(entry(n, slot, uuid=f"u{slot}") for n, slot in enumerate(slots)))
    dispatcher.attach(second, KEY_SHARED)
    (slot, *_) = [each.slot for each in dispatcher.draining()]
    first.writable = False
    late = entry(100, slot, uuid=f"u{slot}", last=True), entry(101, slot)
    assert read(dispatcher, *late) == {}
    ack(dispatcher, slots.index(slot))
    assert replay(dispatcher, *late) == {2: [100, 101]}


def test_the_chunks_of_a_consumer_that_leaves_go_to_one_other_consumer() -> None:
    first, second = consumer(1, 10, (0, 30_000)), consumer(2, 10, (30_001, 65_535))
    dispatcher = sticky(first, second)
    read(dispatcher, entry(0, uuid="u"))
    dispatcher.detach(first)
    dispatcher.attach(consumer(3, 10, (0, 30_000)), KEY_SHARED)
    assert replay(dispatcher, entry(0, uuid="u")) == {3: [0]}
    assert read(dispatcher, entry(1, uuid="u", last=True)) == {3: [1]}


def test_a_move_forgets_the_entries_that_it_passes() -> None:
    poor = consumer(1, 2, (0, 65_535))
    dispatcher = sticky(poor)
    read(dispatcher, *(entry(n) for n in range(5)))
    dispatcher.moved(Position(1, 3))
    assert (dispatcher.unacked_messages, dispatcher.replay_entries) == (0, 1)
    dispatcher.flow(poor, 5)
    assert replay(dispatcher, entry(4)) == {1: [4]}
    ack(dispatcher, 4)
    assert (dispatcher._slots, dispatcher._pending_entries, dispatcher._waiting) == ({}, {}, {})


def test_an_acked_entry_stops_waiting() -> None:
    poor = consumer(1, 1, (0, 65_535))
    dispatcher = sticky(poor)
    read(dispatcher, entry(0), entry(1), entry(2, HIGH))
    ack(dispatcher, 1, 0)
    dispatcher.flow(poor, 5)
    assert read(dispatcher, entry(2, HIGH), kind=ReadKind.REPLAY) == {1: [2]}
    assert read(dispatcher, entry(3)) == {1: [3]}


@pytest.mark.row("I8")
def test_unacked_limits_count_as_on_shared() -> None:
    only = consumer(1, 100, (0, 65_535), max_unacked=4)
    dispatcher = sticky(only, max_unacked=100)
    assert read(dispatcher, *(entry(n) for n in range(10))) == {1: [0, 1, 2, 3]}
    ack(dispatcher, 0)
    assert (only.blocked, only.unacked_messages) == (True, 3)
    ack(dispatcher, 1)
    assert (only.blocked, only.unacked_messages) == (False, 2)
    assert replay(dispatcher, *(entry(n) for n in range(4, 10))) == {1: [4, 5]}


def test_entries_that_were_skipped_get_their_slot_when_read() -> None:
    """When delayed messages become due, the dispatcher does not know their keys yet."""
    poor, rich = consumer(1, 1, (0, 30_000)), consumer(2, 10, (30_001, 65_535))
    dispatcher = sticky(poor, rich, look_ahead=2, max_look_ahead=4)
    assert read(dispatcher, entry(5)) == {1: [5]}
    dispatcher.replay([Position(1, entry_id) for entry_id in range(5)])
    assert dispatcher.replay_entries == 5
    due = [entry(0), entry(1, HIGH), entry(2), entry(3, HIGH), entry(4)]
    assert replay(dispatcher, *due) == {2: [1, 3]}
    assert dispatcher._replay.bound_entries == 2
    assert replay(dispatcher, *due) == {}, "four entries wait already, which is the most"
    assert dispatcher._replay.bound_entries == 3
    dispatcher.flow(poor, 2)
    assert replay(dispatcher, *due) == {1: [0, 2]}
    dispatcher.postpone(Position(1, 4))
    assert dispatcher.replay_entries == 0
    assert read(dispatcher, entry(6, HIGH)) == {2: [6]}
    dispatcher.flow(poor, 2)
    dispatcher.replay([Position(1, 4)])
    assert replay(dispatcher, *due) == {1: [4]}


def test_the_slot_for_which_most_entries_wait_is_reported_with_its_consumer() -> None:
    poor, rich = consumer(1, 1, (0, 30_000)), consumer(2, 10, (30_001, 65_535))
    dispatcher = sticky(poor, rich)
    assert dispatcher.most_waiting() is None
    read(dispatcher, entry(0), entry(1), entry(2, LOW + 1), entry(3), entry(4, HIGH))
    found = dispatcher.most_waiting()
    assert found is not None
    assert (found.slot, found.consumer, found.waiting_entries, found.is_draining) == (LOW, poor, 2, False)
    dispatcher.flow(poor, 10)
    replay(dispatcher, entry(1), entry(2, LOW + 1), entry(3))
    assert dispatcher.most_waiting() is None


def steps_of_leaving(leavers: int) -> int:
    """Let a connection with this many consumers end, each with 20 pending entries. One other consumer stays."""
    dispatcher = KeySharedDispatcher()
    consumers = [DispatchConsumer(key=key, name=f"c{key}") for key in range(1, leavers + 2)]
    for each in consumers:
        dispatcher.attach(each, KEY_SHARED)
        each.flow(100)
    sent = 0
    while sent < 20 * leavers:
        plan = plan_of(dispatcher, ReadKind.NORMAL)
        slots = [slot_of_position(Position(1, sent + at)) for at in range(min(20, plan.max_entries))]
        dispatcher.assign([entry(sent + at, slot) for at, slot in enumerate(slots)], plan)
        sent += len(slots)
    with counted_steps(key_shared, replay_queues) as steps:
        for each in consumers[:leavers]:
            dispatcher.detach(each)
    assert dispatcher.replay_entries + len(consumers[-1].pending) == sent
    return steps.count


def test_the_end_of_a_connection_with_many_consumers_costs_time_only_for_what_moves() -> None:
    assert steps_of_leaving(60) < 2.9 * steps_of_leaving(30)  # quadratic work grows by 4
