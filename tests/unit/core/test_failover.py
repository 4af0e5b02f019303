"""Failover rule by rule; the model test covers interleavings of the rules."""

from __future__ import annotations

from collections import Counter

import pytest

from broker.core.dispatchers.base import DispatchConsumer, ReadEntry
from broker.core.dispatchers.failover import FailoverDispatcher
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType

FAILOVER = SubscriptionType.FAILOVER
DELAY_MS = 1000


def consumer(key: int, name: str = "", *, priority: int = 0, permits: int = 100) -> DispatchConsumer:
    made = DispatchConsumer(key=key, name=name or f"c{key}", priority=priority)
    made.flow(permits)
    return made


def failover(
    *consumers: DispatchConsumer, partition: int | None = 0, topic: str = "t", switched: bool = True
) -> FailoverDispatcher:
    dispatcher = FailoverDispatcher(topic_name=topic, partition=partition, delay_ms=DELAY_MS)
    for each in consumers:
        dispatcher.attach(each, FAILOVER, 0)
    if switched:
        assert dispatcher.run_due(DELAY_MS)
    return dispatcher


def send(dispatcher: FailoverDispatcher, *entry_ids: int) -> tuple[int, list[int]] | None:
    plan = dispatcher.next_read()
    if plan is None:
        return None
    ((to, entries),) = [
        (each.consumer.key, [entry.position.entry_id for entry in each.entries])
        for each in dispatcher.assign([ReadEntry(Position(1, e), 1) for e in entry_ids], plan)[0]
    ]
    return to, entries


@pytest.mark.parametrize(("partition", "chosen"), [(0, 2), (1, 3), (2, 2), (7, 3)])
def test_the_best_priority_then_the_name_then_the_partition_choose(partition: int, chosen: int) -> None:
    """Among the consumers of the best priority, in the order of their names, the partition's number chooses one."""
    dispatcher = failover(
        consumer(1, "a", priority=1), consumer(3, "c"), consumer(2, "b"), partition=partition
    )
    assert [each.key for each in dispatcher.consumers] == [2, 3, 1]
    assert dispatcher.active is not None
    assert dispatcher.active.key == chosen


def test_topics_without_partitions_are_spread_by_their_names() -> None:
    chosen: Counter[int] = Counter()
    for number in range(300):
        dispatcher = failover(
            *(consumer(key) for key in (1, 2, 3)), consumer(4, priority=1), partition=None, topic=f"t{number}"
        )
        again = failover(
            *(consumer(key) for key in (3, 1, 2)), consumer(4, priority=1), partition=None, topic=f"t{number}"
        )
        assert dispatcher.active is not None
        assert again.active is not None
        assert dispatcher.active.key == again.active.key, "the order of arrival must not count"
        chosen[dispatcher.active.key] += 1
    assert set(chosen) == {1, 2, 3}
    assert min(chosen.values()) > 50


def test_a_leaver_moves_only_its_own_topics() -> None:
    moved = 0
    for number in range(200):
        three = [consumer(key) for key in (1, 2, 3)]
        dispatcher = failover(*three, partition=None, topic=f"t{number}")
        before = dispatcher.active
        dispatcher.detach(three[2], 5000)
        assert before is three[2] or dispatcher.active is before
        moved += before is three[2]
    assert 30 < moved < 110


def test_even_the_first_consumer_waits_and_its_permits_are_kept() -> None:
    first = consumer(1, permits=5)
    dispatcher = failover(switched=False)
    assert dispatcher.attach(first, FAILOVER, 7000)
    assert dispatcher.due_ms == 8000
    assert not dispatcher.can_send()
    assert dispatcher.next_read() is None
    dispatcher.flow(first, 3)
    assert not dispatcher.run_due(7999)
    assert send(dispatcher, 0) is None
    assert dispatcher.run_due(8000)
    assert send(dispatcher, 0, 1) == (1, [0, 1])
    assert first.permits.granted == 8


@pytest.mark.row("I12")
def test_after_the_choice_the_old_consumer_gets_nothing() -> None:
    old, new = consumer(2, "b"), consumer(1, "a")
    dispatcher = failover(old)
    assert send(dispatcher, 0, 1) == (2, [0, 1])
    assert not dispatcher.attach(new, FAILOVER, 5000)
    assert dispatcher.active is new
    assert (dispatcher.due_ms, old.unacked_messages) == (6000, 0)
    assert send(dispatcher, 2) is None
    assert dispatcher.run_due(6000)
    assert send(dispatcher, 0, 1, 2) == (1, [0, 1, 2])


@pytest.mark.row("S1.17")
def test_entries_read_for_the_old_consumer_are_dropped() -> None:
    old, new = consumer(2, "b"), consumer(1, "a")
    dispatcher = failover(old)
    plan = dispatcher.next_read()
    assert plan is not None
    dispatcher.attach(new, FAILOVER, 5000)
    assert not dispatcher.is_current(plan)
    assert dispatcher.assign([ReadEntry(Position(1, 0), 1)], plan) == ([], [])
    assert old.permits.balance == new.permits.balance == 100


def test_a_choice_that_changes_while_it_waits_keeps_its_time() -> None:
    dispatcher = failover(consumer(3, "c"))
    best = consumer(1, "a")
    dispatcher.attach(consumer(2, "b"), FAILOVER, 5000)
    dispatcher.attach(best, FAILOVER, 5900)
    assert (dispatcher.active, dispatcher.due_ms) == (best, 6000)
    dispatcher.detach(best, 5950)
    assert dispatcher.active is not None
    assert (dispatcher.active.key, dispatcher.due_ms) == (2, 6000)


def test_joins_and_leaves_that_do_not_change_the_active_consumer_have_no_effect() -> None:
    active, standby = consumer(1, "a"), consumer(2, "b")
    dispatcher = failover(active)
    assert send(dispatcher, 0) == (1, [0])
    dispatcher.attach(standby, FAILOVER, 5000)
    assert dispatcher.due_ms is None
    assert send(dispatcher, 1) == (1, [1])
    assert dispatcher.detach(standby, 5100) == []
    assert dispatcher.due_ms is None
    assert active.unacked_messages == 2


def test_permits_of_standby_consumers_are_kept() -> None:
    active, standby = consumer(1, "a"), consumer(2, "b", permits=4)
    dispatcher = failover(active, standby)
    dispatcher.flow(standby, 3)
    dispatcher.detach(active, 5000)
    assert dispatcher.run_due(6000)
    assert send(dispatcher, *range(10)) == (2, list(range(7)))


@pytest.mark.row("S4.24")
def test_only_the_active_consumer_may_request_redelivery_and_not_while_it_waits() -> None:
    active, standby = consumer(1, "a"), consumer(2, "b")
    dispatcher = failover(active, standby)
    send(dispatcher, 0, 1)
    assert not dispatcher.redeliver(standby, None)
    assert dispatcher.redeliver(active, [Position(1, 1)]), (
        "single entries cannot be named: all are delivered again"
    )
    assert send(dispatcher, 0, 1) == (1, [0, 1])
    dispatcher.detach(active, 5000)
    assert not dispatcher.redeliver(standby, None)
    assert dispatcher.run_due(6000)
    assert dispatcher.redeliver(standby, None)


def test_the_last_leaver_ends_the_wait() -> None:
    only = consumer(1)
    dispatcher = failover(only)
    dispatcher.detach(only, 5000)
    assert (dispatcher.active, dispatcher.due_ms, list(dispatcher.consumers)) == (None, None, [])
    assert not dispatcher.run_due(9000)
    assert dispatcher.attach(only, FAILOVER, 10_000)
    assert dispatcher.due_ms == 11_000
