"""Permits, pending acks, replay set, redelivery counts."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.dispatchers.pending_acks import PendingAcks
from broker.core.dispatchers.permits import Permits
from broker.core.errors import InvalidFlow
from broker.core.position import Position
from broker.core.subscription.redelivery import RedeliveryCounts, ReplaySet

positions = st.builds(Position, st.integers(0, 3), st.integers(0, 20))


@pytest.mark.row("I7")
def test_granted_spent_and_set_aside_permits_add_up() -> None:
    permits = Permits()
    permits.grant(5)
    permits.spend(7)
    permits.set_aside(4)
    assert (permits.balance, permits.granted, permits.spent, permits.aside) == (-2, 5, 7, 4)
    permits.grant_aside()
    assert (permits.balance, permits.granted, permits.aside) == (2, 9, 0)


@pytest.mark.parametrize("messages", [0, -1])
def test_flow_of_nothing_is_refused(messages: int) -> None:
    with pytest.raises(InvalidFlow):
        Permits().grant(messages)
    with pytest.raises(InvalidFlow):
        Permits().set_aside(messages)


@given(st.dictionaries(positions, st.integers(1, 9)), st.lists(positions), positions)
def test_pending_acks_equal_those_of_a_dict(
    held: dict[Position, int], named: list[Position], mark: Position
) -> None:
    pending = PendingAcks()
    for position, messages in held.items():
        pending.add(position, messages)
    assert list(pending) == sorted(held)
    assert pending.oldest() == min(held, default=None)
    assert [Position(i, e) for i, a, b in pending.runs() for e in range(a, b + 1)] == sorted(held)
    assert pending.pop(named) == sorted(set(named) & held.keys())
    held = {p: n for p, n in held.items() if p not in named}
    assert pending.pop_through(mark) == sum(n for p, n in held.items() if p <= mark)
    held = {p: n for p, n in held.items() if p > mark}
    assert (len(pending), pending.messages) == (len(held), sum(held.values()))
    assert all(pending.get(p) == n and p in pending for p, n in held.items())
    assert pending.pop_all() == sorted(held)
    assert (pending.entries, pending.messages) == (0, 0)


def test_pending_batch_is_credited_in_parts() -> None:
    pending = PendingAcks()
    position = Position(1, 0)
    pending.add(position, 5)
    assert pending.credit(position, 2, completed=False) == (2, 0)
    assert (pending.get(position), pending.messages) == (3, 3)
    assert pending.credit(position, 1, completed=True) == (3, 0)
    assert pending.credit(position, 1, completed=True) is None
    assert pending.remove(Position(1, 7)) is None
    assert position not in pending


def test_an_entry_that_is_pending_already_is_refused() -> None:
    pending = PendingAcks()
    pending.add(Position(1, 0), 1)
    with pytest.raises(ValueError, match="already"):
        pending.add(Position(1, 0), 1)
    assert pending.messages == 1


def test_pending_entries_are_not_walked_by_the_garbage_collector() -> None:
    pending = PendingAcks()
    positions = [Position(1, entry_id) for entry_id in range(5000)]
    gc.collect()
    before = len(gc.get_objects())
    for position in positions:
        pending.add(position, 1)
    assert len(gc.get_objects()) - before < 50


@given(st.lists(st.tuples(st.sampled_from("adp"), positions)), positions)
def test_a_replay_set_behaves_like_a_set(steps: list[tuple[str, Position]], mark: Position) -> None:
    replay = ReplaySet()
    model: set[Position] = set()
    for step, position in steps:
        if step == "a":
            replay.add(position)
            model.add(position)
        elif step == "d":
            assert replay.discard(position) == (position in model)
            model.discard(position)
        else:
            expected = sorted(model)[: position.entry_id]
            assert replay.pop_first(position.entry_id) == expected
            model -= set(expected)
        assert len(replay) == len(model)
        assert replay.first() == min(model, default=None)
        assert replay.peek(3) == sorted(model)[:3]
        assert (position in replay) == (position in model)
    replay.discard_through(mark)
    assert replay.pop_first(1000) == sorted(p for p in model if p > mark)


def test_the_replay_heap_does_not_grow_with_discarded_entries() -> None:
    replay = ReplaySet()
    for entry_id in range(10_000):
        replay.add(Position(1, entry_id))
        replay.discard(Position(1, entry_id))
    assert len(replay._heap) < 200
    replay.clear()
    assert len(replay) == 0


@given(st.lists(positions), positions)
def test_redelivery_counts_count_requests_until_they_are_discarded(
    asked: list[Position], mark: Position
) -> None:
    counts = RedeliveryCounts()
    for position in asked:
        counts.increment(position)
    assert all(counts.get(p) == asked.count(p) for p in asked)
    counts.discard_through(mark)
    assert all(counts.get(p) == (asked.count(p) if p > mark else 0) for p in asked)
    for position in asked:
        counts.discard(position)
    assert len(counts) == 0
