"""What a machine records for delivery stories: the rows say exactly what happened, and in which order."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.dispatchers.base import ReadEntry
from broker.core.policies import DeliveryStoryMode
from broker.core.position import Position
from broker.core.subscription import story as delivery_story
from broker.core.subscription.story import MOST_ROWS, DeliveryStory
from broker.core.subscription.story_rows import MOST_ENTRIES, StoryBuffer, StoryEvent, StoryRow
from broker.core.subscription.types import SubscriptionType
from broker.subscription.machine.state import Member
from console.story import rows as console_rows
from tests.support.steps import counted_steps
from tests.unit.subscription.machines import EXCLUSIVE, FAILOVER, FAILOVER_DELAY_MS, SHARED, START_MS, Machine

KEEP_MS = 1000
ACKED, DELIVERED = StoryEvent.ACKED, StoryEvent.DELIVERED


class Happened(NamedTuple):
    """An event that happened to an entry."""

    event: StoryEvent
    consumer: str
    at_ms: int


class Told:
    """A machine, and the test's own record of what happened to each entry."""

    def __init__(self, type_: SubscriptionType, mode: DeliveryStoryMode) -> None:
        self.machine = Machine(type_)
        self.machine.story.use_policy(mode, KEEP_MS)
        self.truth: dict[Position, list[Happened]] = {}
        self.rows: list[StoryRow] = []
        self.members: dict[int, Member] = {}
        self.unacked: dict[int, set[Position]] = {}  # delivered and not acked or returned, by consumer
        self._keys = 0

    def publish(self, number: int) -> None:
        self.machine.publish(*[1] * number)

    def attach(self) -> None:
        if self.members and self.machine.state.type is EXCLUSIVE:
            return
        self._keys += 1
        self.members[self._keys], _ = self.machine.attach(self._keys, permits=10_000)
        self.unacked[self._keys] = set()

    def pump(self) -> None:
        before = {key: len(sent) for key, sent in self.machine.sent.items()}
        self.machine.pump()
        for key, sent in self.machine.sent.items():
            for position in sent[before.get(key, 0) :]:
                self._happened(position, DELIVERED, key)
                self.unacked[key].add(position)

    def ack(self, key: int, positions: list[Position], *, cumulative: bool) -> None:
        cursor = self.machine.state.cursor
        known = [each for each in self.truth if not cursor.is_acked(each)]
        self.machine.ack(self.members[key], *positions, cumulative=cumulative)
        for position in known:
            if cursor.is_acked(position):
                self._happened(position, ACKED, key)
                for unacked in self.unacked.values():
                    unacked.discard(position)

    def redeliver(
        self, key: int, positions: list[Position] | None, reason: StoryEvent = StoryEvent.ASKED_AGAIN
    ) -> None:
        member = self.members[key]
        if self.machine.state.type is EXCLUSIVE or positions is None:
            returned = set(self.unacked[key]) if positions is None or positions else set()
        else:
            returned = set(positions) & self.unacked[key]
        self._returned(reason, key, returned)
        self.machine.machine.redelivery.redeliver(member, positions, reason, self.machine.now_ms)

    def leave(self, key: int) -> None:
        self._returned(StoryEvent.CONSUMER_LEFT, key, set(self.unacked[key]))
        self.machine.machine.gone(self.members.pop(key), self.machine.now_ms)

    def take(self) -> None:
        self.rows += self.machine.buffer.take()

    def told(self) -> dict[Position, list[Happened]]:
        """Return what the rows tell about each entry, in the console's order. An event's time is its row's range."""
        self.take()
        found: dict[Position, list[console_rows.StoryRow]] = {}
        for number, row in enumerate(self.rows):
            assert row.last_entry - row.first_entry < MOST_ENTRIES
            shown = console_rows.StoryRow(
                id=number,
                **{
                    each.name: getattr(row, each.name)
                    for each in fields(console_rows.StoryRow)
                    if each.name != "id"
                },
            )
            for entry_id in range(row.first_entry, row.last_entry + 1):
                found.setdefault(Position(row.ledger_id, entry_id), []).append(shown)
        for position, shown_rows in found.items():
            for shown, happened in zip(
                console_rows.in_order(shown_rows), self.expected(position), strict=True
            ):
                assert shown.at_ms <= happened.at_ms <= shown.until_ms
        return {
            position: [
                Happened(StoryEvent(each.event), each.consumer_name, each.at_ms)
                for each in console_rows.in_order(shown_rows)
            ]
            for position, shown_rows in found.items()
        }

    def expected(self, position: Position) -> list[Happened]:
        """Return the events that must be recorded for an entry."""
        happened = self.truth[position]
        if self.machine.story._records_all:
            return happened
        returns = [at for at, each in enumerate(happened) if each.event not in (DELIVERED, ACKED)]
        return happened[returns[0] - 1 :] if returns else []

    def _returned(self, event: StoryEvent, key: int, positions: set[Position]) -> None:
        for position in positions:
            self._happened(position, event, key)
        self.unacked[key] -= positions

    def _happened(self, position: Position, event: StoryEvent, key: int) -> None:
        self.truth.setdefault(position, []).append(Happened(event, f"c{key}", self.machine.now_ms))


@settings(max_examples=40, deadline=None)
@given(
    type_=st.sampled_from([SHARED, EXCLUSIVE]), mode=st.sampled_from(["all", "redelivered"]), data=st.data()
)
def test_the_rows_say_what_happened_to_each_entry_and_in_which_order(
    type_: SubscriptionType, mode: str, data: st.DataObject
) -> None:
    told = Told(type_, DeliveryStoryMode(mode))
    told.attach()
    told.publish(6)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=20, max_size=40), label="steps"):
        told.machine.now_ms += data.draw(st.integers(0, 2), label="ms")
        members = sorted(told.members)
        if step == "publish":
            told.publish(3)
        elif step == "attach":
            told.attach()
        elif step == "pump":
            told.pump()
        elif step == "take":
            told.take()
        elif members:
            key = data.draw(st.sampled_from(members), label="consumer")
            known = sorted(told.truth)
            some = data.draw(
                st.lists(st.sampled_from(known), max_size=5) if known else st.just([]), label="entries"
            )
            if step == "leave":
                told.leave(key)
            elif step == "redeliver all":
                told.redeliver(key, None)
            elif step == "redeliver" and some:
                told.redeliver(key, some, data.draw(st.sampled_from(REASONS), label="reason"))
            elif step == "ack" and some:
                told.ack(key, some, cumulative=False)
            elif step == "ack through" and some and type_ is EXCLUSIVE:
                told.ack(key, some[:1], cumulative=True)
    expected = {position: [each[:2] for each in told.expected(position)] for position in told.truth}
    assert {position: [each[:2] for each in happened] for position, happened in told.told().items()} == {
        position: happened for position, happened in expected.items() if happened
    }


REASONS = [StoryEvent.ASKED_AGAIN, StoryEvent.TIMED_OUT]
STEPS = [
    "publish",
    "attach",
    "pump",
    "pump",
    "pump",
    "take",
    "leave",
    "redeliver all",
    "redeliver",
    "ack",
    "ack",
    "ack through",
]


def test_a_run_that_one_consumer_gets_and_acks_in_order_is_two_rows() -> None:
    told = Told(SHARED, DeliveryStoryMode.ALL)
    told.attach()
    told.publish(1000)
    told.pump()
    for position in sorted(told.truth):
        told.machine.now_ms += 1
        told.ack(1, [position], cumulative=False)
    told.take()
    assert [(row.event, row.first_entry, row.last_entry, row.events) for row in told.rows] == [
        (DELIVERED, 0, 999, 1000),
        (ACKED, 0, 999, 1000),
    ]
    assert (told.rows[1].at_ms, told.rows[1].until_ms) == (START_MS + 1, START_MS + 1000)
    assert told.rows[1].consumer_address == "10.0.0.1:5000"
    assert told.rows[1].expires_ms == START_MS + 1 + KEEP_MS


@pytest.mark.parametrize("mode", [DeliveryStoryMode.ALL, DeliveryStoryMode.REDELIVERED])
def test_a_row_does_not_grow_over_a_return(mode: DeliveryStoryMode) -> None:
    told = Told(SHARED, mode)
    told.attach()
    told.publish(2)
    told.pump()
    first, second = sorted(told.truth)
    for position, reason in ((first, StoryEvent.ASKED_AGAIN), (second, StoryEvent.TIMED_OUT)):
        told.machine.now_ms += 1
        told.redeliver(1, [position], reason)
        told.machine.now_ms += 1
        told.pump()
    assert [each.event for each in told.told()[second]] == [DELIVERED, StoryEvent.TIMED_OUT, DELIVERED]


@pytest.mark.parametrize("type_", [SHARED, EXCLUSIVE])
def test_with_redelivered_only_messages_that_come_back_are_recorded(type_: SubscriptionType) -> None:
    told = Told(type_, DeliveryStoryMode.REDELIVERED)
    told.attach()
    told.publish(50)
    told.pump()
    for position in sorted(told.truth):
        told.ack(1, [position], cumulative=False)
    told.take()
    assert not told.rows
    assert not told.machine.story.watches_acks


def test_with_off_nothing_is_recorded_and_earlier_returns_are_forgotten() -> None:
    told = Told(SHARED, DeliveryStoryMode.REDELIVERED)
    told.attach()
    told.publish(2)
    told.pump()
    told.redeliver(1, None)
    told.machine.story.use_policy(DeliveryStoryMode.OFF, KEEP_MS)
    told.take()
    told.rows.clear()
    told.pump()
    told.ack(1, sorted(told.truth), cumulative=False)
    told.leave(1)
    told.take()
    assert not told.rows


def test_nothing_is_recorded_of_a_reader() -> None:
    machine = Machine(EXCLUSIVE, is_durable=False)
    machine.story.use_policy(DeliveryStoryMode.ALL, KEEP_MS)
    member, _ = machine.attach(permits=10)
    machine.publish(1, 1)
    machine.pump()
    machine.machine.gone(member, START_MS)
    assert machine.buffer.take() == []


def test_a_batch_acked_in_part_says_so_in_one_row() -> None:
    machine = Machine(SHARED)
    machine.story.use_policy(DeliveryStoryMode.ALL, KEEP_MS)
    member, _ = machine.attach(permits=10)
    (position,) = machine.publish(3)
    machine.pump()
    for remaining in (0b110, 0b100):
        machine.now_ms += 1
        machine.ack_part(member, position, remaining)
    machine.ack(member, position)
    rows = machine.buffer.take()
    assert [(row.event, row.events) for row in rows] == [
        (DELIVERED, 1),
        (StoryEvent.PARTLY_ACKED, 2),
        (ACKED, 1),
    ]
    assert (rows[1].at_ms, rows[1].until_ms) == (START_MS + 1, START_MS + 2)


def test_entries_that_came_back_one_by_one_are_recorded_once() -> None:
    told = Told(SHARED, DeliveryStoryMode.REDELIVERED)
    told.attach()
    told.publish(1030)  # more entries than a block of the set of positions holds
    told.pump()
    told.redeliver(1, sorted(told.truth)[1020:1026])
    told.pump()
    told.leave(1)
    assert len(told.machine.story._again) == 1030
    for position, happened in told.told().items():
        assert [each.event for each in happened] == [each.event for each in told.expected(position)]


def test_a_failover_switch_returns_what_the_other_consumer_has() -> None:
    machine = Machine(FAILOVER)
    machine.story.use_policy(DeliveryStoryMode.REDELIVERED, KEEP_MS)
    first, _ = machine.attach(1, permits=10)
    _wait_for_switch(machine)
    machine.publish(1, 1)
    machine.pump()
    key = 1
    # A hash of the names decides which consumer becomes active.
    while machine.state.dispatcher.active is first.dispatch:
        key += 1
        machine.attach(key, permits=10)
    machine.pump()
    _wait_for_switch(machine)
    machine.pump()
    assert [(row.event, row.consumer_name, row.events) for row in machine.buffer.take()] == [
        (DELIVERED, "c1", 2),
        (StoryEvent.CONSUMER_SWITCHED, "c1", 2),
        (DELIVERED, f"c{key}", 2),
    ]


def test_no_switch_is_recorded_if_everybody_leaves_before_it() -> None:
    machine = Machine(FAILOVER)
    machine.story.use_policy(DeliveryStoryMode.REDELIVERED, KEEP_MS)
    members = [machine.attach(1, permits=10)[0]]
    _wait_for_switch(machine)
    machine.publish(1)
    machine.pump()
    while machine.state.dispatcher.due_ms is None:
        members.append(machine.attach(len(members) + 1, permits=10)[0])
    for member in reversed(members):
        machine.machine.gone(member, machine.now_ms)
    assert [(row.event, row.consumer_name) for row in machine.buffer.take()] == [
        (DELIVERED, "c1"),
        (StoryEvent.CONSUMER_LEFT, "c1"),
    ]


def _wait_for_switch(machine: Machine) -> None:
    machine.now_ms += FAILOVER_DELAY_MS
    machine.machine.redelivery.switch(machine.now_ms)


def test_events_without_room_are_counted_in_one_row_of_their_ledger() -> None:
    machine = Machine(SHARED)
    machine.story.use_policy(DeliveryStoryMode.ALL, KEEP_MS)
    member, _ = machine.attach(permits=10_000)
    positions = machine.publish(*[1] * (2 * MOST_ROWS + 4))
    machine.pump()
    machine.buffer.take()
    for position in positions[::2]:  # no two entries are neighbours, so each needs its own row
        machine.now_ms += 1
        machine.ack(member, position)
    rows = machine.buffer.take()
    assert Counter(row.event for row in rows) == {ACKED: MOST_ROWS, StoryEvent.UNRECORDED: 1}
    left_out = rows[-1]
    assert (left_out.first_entry, left_out.last_entry) == (
        positions[2 * MOST_ROWS].entry_id,
        positions[-2].entry_id,
    )
    assert (left_out.events, left_out.at_ms, left_out.until_ms) == (
        2,
        START_MS + MOST_ROWS + 1,
        START_MS + MOST_ROWS + 2,
    )
    machine.ack(member, positions[1])
    assert [row.event for row in machine.buffer.take()] == [ACKED]  # the next round has room again


@pytest.mark.parametrize("mode", [DeliveryStoryMode.ALL, DeliveryStoryMode.REDELIVERED])
def test_of_a_consumer_with_very_many_ack_holes_only_as_much_is_looked_at_as_has_room(
    mode: DeliveryStoryMode,
) -> None:
    machine = Machine(EXCLUSIVE)
    member, _ = machine.attach(permits=100_000)
    positions = machine.publish(*[1] * (20 * MOST_ROWS))
    machine.pump()
    machine.ack(member, *positions[1::2])
    machine.story.use_policy(mode, KEEP_MS)
    machine.story.delivered(
        member,
        [ReadEntry(each, 1) for each in positions],
        machine.state.counts,
        machine.state.cursor,
        machine.now_ms,
    )
    machine.buffer.take()
    with counted_steps(delivery_story) as steps:
        machine.story.rewound(StoryEvent.CONSUMER_LEFT, machine.state.cursor, machine.now_ms)
    rows = machine.buffer.take()
    kept = StoryEvent.CONSUMER_LEFT if mode is DeliveryStoryMode.ALL else DELIVERED
    assert Counter(row.event for row in rows) == {kept: MOST_ROWS, StoryEvent.UNRECORDED: 1}
    events = 10 * MOST_ROWS * (1 if mode is DeliveryStoryMode.ALL else 2)
    assert sum(row.events for row in rows) == events
    assert rows[-1].last_entry == positions[-1].entry_id
    assert steps.count < 100 * MOST_ROWS


def test_a_full_buffer_leaves_out_the_rows_of_every_subscription() -> None:
    buffer = StoryBuffer(most_rows=1)
    stories = [DeliveryStory(buffer, number) for number in (1, 2)]
    machine = Machine(SHARED)
    member, _ = machine.attach()
    for story in stories:
        story.use_policy(DeliveryStoryMode.ALL, KEEP_MS)
        story.delivered(
            member, [ReadEntry(Position(1, 5), 1)], machine.state.counts, machine.state.cursor, START_MS
        )
    assert [(row.subscription_id, row.event) for row in buffer.take()] == [
        (1, DELIVERED),
        (2, StoryEvent.UNRECORDED),
    ]
