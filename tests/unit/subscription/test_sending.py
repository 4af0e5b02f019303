"""Dispatch in the machine: entries that are sent from memory, entries that are read first, and filtered entries."""

from __future__ import annotations

import pytest

from broker.core.policies import Policies
from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType
from broker.plugins import FilteredEntry, Verdict
from broker.subscription.machine.effects import ReadAhead, ReadChosen, Say, SendLater, Watch, Wish
from broker.subscription.machine.rates import DispatchLimit, RatePair
from broker.subscription.machine.state import Discard
from tests.unit.subscription.machines import EXCLUSIVE, FILTER_DELAY_MS, SHARED, START_MS, Machine


class Verdicts:
    """A filter that does what the test says."""

    def __init__(self, verdict: Verdict) -> None:
        self.answer: Verdict | None = verdict

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """Return the verdict that the test set for all entries, or fail if it set none."""
        if self.answer is None:
            raise ValueError("a fault in the filter")
        return self.answer


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
def test_entries_in_memory_are_sent_as_far_as_permits_allow(type_: SubscriptionType) -> None:
    machine = Machine(type_)
    machine.attach(1, permits=3)
    positions = machine.publish(1, 1, 1, 1)
    assert machine.pump() == []
    assert machine.sent == {1: positions[:3]}
    assert machine.state.read_position == positions[3]


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
def test_entries_found_beyond_the_permits_are_sent_next(type_: SubscriptionType) -> None:
    machine = Machine(type_)
    member, _ = machine.attach(1, permits=10)
    positions = machine.publish(*[4] * 10)
    machine.pump()
    assert machine.sent[1] == positions[:3]
    machine.machine.flow(member, 4, machine.now_ms)
    machine.pump()
    assert machine.sent[1] == positions[:4]


def test_entries_not_in_memory_are_requested_and_sent_after_the_read() -> None:
    machine = Machine()
    machine.attach(1, permits=10)
    positions = machine.publish(1, 1, cached=False)
    assert machine.pump() == [ReadAhead(positions[0])]
    machine.machine.sending.entries_read([machine.entry(each) for each in positions])
    assert machine.pump() == []
    assert machine.sent == {1: positions}
    machine.machine.sending.forget_read()
    member = machine.state.members[1]
    machine.machine.redelivery.redeliver(member, positions, StoryEvent.ASKED_AGAIN, machine.now_ms)
    assert machine.pump() == [ReadChosen(positions)]


@pytest.mark.parametrize("has_filter", [False, True])
def test_a_replay_of_trimmed_entries_sends_nothing_and_continues(has_filter: bool) -> None:
    machine = Machine(filters=[Verdicts(Verdict.ACCEPT)] if has_filter else [])
    member, _ = machine.attach(1, permits=100)
    machine.publish(1, 1)
    machine.pump()
    machine.log.roll()
    later = machine.publish(1)
    machine.machine.redelivery.redeliver(member, None, StoryEvent.ASKED_AGAIN, machine.now_ms)
    machine.log.ledgers.drop_first(1)
    machine.cached.pop(1)
    machine.sent.clear()
    assert machine.pump() == []
    assert machine.sent == {1: later}
    assert machine.state.dispatcher.replay_entries == 0


def test_nothing_is_sent_during_a_pause_a_move_or_a_gap() -> None:
    machine = Machine()
    machine.attach(1, permits=10)
    positions = machine.publish(1)
    machine.machine.pause()
    assert not machine.state.may_send
    assert list(machine.machine.resume()) == [Wish.SEND]
    machine.machine.begin_move()
    assert not machine.state.may_send
    machine.machine.end_move()
    machine.machine.gap_found("an entry is missing")
    assert not machine.state.may_send
    machine.machine.moved()
    machine.pump()
    assert machine.sent == {1: positions}


def test_entries_that_a_filter_rejects_are_acked_for_this_subscription() -> None:
    machine = Machine(filters=[Verdicts(Verdict.REJECT)])
    member, _ = machine.attach(1, permits=10)
    machine.publish(1, 3)
    assert machine.pump() == [Wish.DIRTY]
    assert machine.sent == {}
    assert machine.state.cursor.backlog_messages == 0
    assert machine.state.counters.discarded[Discard.FILTER] == 4
    assert member.dispatch.permits.balance == 10


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
def test_entries_that_a_filter_puts_off_are_filtered_again_in_time(type_: SubscriptionType) -> None:
    asked = Verdicts(Verdict.RESCHEDULE)
    machine = Machine(type_, filters=[asked])
    machine.attach(1, permits=10)
    positions = machine.publish(1, 1)
    due_ms = START_MS + FILTER_DELAY_MS
    assert set(machine.pump()) == {Watch(due_ms)}
    assert machine.machine.redelivery.next_due_ms() == due_ms
    asked.answer = Verdict.ACCEPT
    assert machine.machine.redelivery.time_passed(due_ms - 1) == (0, [])
    entries, effects = machine.machine.redelivery.time_passed(due_ms)
    assert entries > 0
    assert Wish.SEND in effects
    machine.pump()
    assert machine.sent == {1: positions}


def test_an_error_of_a_filter_loses_nothing_and_is_logged() -> None:
    asked = Verdicts(Verdict.ACCEPT)
    asked.answer = None
    machine = Machine(filters=[asked])
    machine.attach(1, permits=10)
    machine.publish(1)
    [said, watch] = machine.pump()
    assert isinstance(said, Say)
    assert isinstance(said.error, ValueError)
    assert isinstance(watch, Watch)
    assert machine.state.cursor.backlog_messages == 1
    assert machine.state.counters.filter_errors == 1


def test_a_rate_limit_sends_its_share_and_says_when_to_continue() -> None:
    machine = Machine()
    machine.attach(1, permits=100)
    limit = DispatchLimit.of(Policies(), RatePair(2, 0, START_MS), now_ms=START_MS, replaces=None)
    assert limit is not None
    machine.machine.limit_rate(limit)
    machine.publish(1, 1, 1)
    batch = machine.machine.sending.next_batch(machine.now_ms)
    assert batch is not None
    assert [len(each.deliveries) for each in batch.deliveries] == [2]
    limit.sent(batch.deliveries[0].deliveries, machine.now_ms)
    assert machine.pump() == [SendLater(500)]
    assert machine.pump() == [SendLater(500)]
    assert limit.times == 1  # this is one wait, however often the machine checked the limit
    assert limit.is_waiting(machine.now_ms)
    machine.now_ms += 500
    assert not limit.is_waiting(machine.now_ms)
    assert machine.pump() == []
    assert len(machine.sent[1]) == 1


def test_a_wait_for_the_rate_ends_although_the_clock_was_set_back() -> None:
    machine = Machine()
    machine.attach(1, permits=100)
    limit = DispatchLimit.of(Policies(), RatePair(2, 0, START_MS), now_ms=START_MS, replaces=None)
    assert limit is not None
    machine.machine.limit_rate(limit)
    machine.publish(1, 1, 1)
    batch = machine.machine.sending.next_batch(START_MS)
    assert batch is not None
    limit.sent(batch.deliveries[0].deliveries, START_MS)
    assert machine.pump() == [SendLater(500)]
    machine.now_ms -= 3_600_000
    assert machine.pump() == [SendLater(500)]
    machine.now_ms += 500
    assert machine.pump() == []
    assert not limit.is_waiting(machine.now_ms)
