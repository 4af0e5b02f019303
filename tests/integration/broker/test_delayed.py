"""Delayed delivery: on which subscriptions messages wait, and what survives a restart."""

from __future__ import annotations

import pytest

from broker.core.subscription.types import SubscriptionType
from broker.storage.log import sweep
from tests.integration.broker.delaying import BY_HAND, delayed, run_due
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    eventually,
    one_row,
    rows,
    running,
)

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def needs_pruning(run: BrokerRun) -> bool:
    return run.topic().delayed.needs_pruning


@pytest.mark.row("S1.4")
@pytest.mark.parametrize("type_", [SHARED, SubscriptionType.KEY_SHARED])
async def test_a_delayed_message_waits_on_shared_and_not_on_exclusive(
    broker_url: str, type_: SubscriptionType
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        shared = await run.consumer(subscription="shared", type_=type_, permits=100)
        exclusive = await run.consumer(subscription="exclusive", type_=EXCLUSIVE, permits=100)
        positions = await delayed(producer, clock, 0, 1000, 0, 500)
        await exclusive.has(4)
        await shared.has(2)
        assert exclusive.positions == positions
        assert shared.positions == [positions[0], positions[2]]
        subscription = run.subscription(subscription="shared")
        assert shared.consumer is not None
        assert shared.consumer.dispatch.permits.spent == 2
        shared.ack(*shared.positions)
        assert subscription.cursor.backlog_messages == 2  # held, not acked
        clock.advance(499)
        assert run_due(run) == 0
        clock.advance(1)
        assert run_due(run) == 1
        await shared.has(3)
        clock.advance(500)
        assert run_due(run) == 1
        await shared.has(4)
        assert shared.positions[2:] == [positions[3], positions[1]]
        assert [each.redelivery_count for each in shared.deliveries] == [0, 0, 0, 0]
        shared.ack(*shared.positions)
        assert subscription.cursor.backlog_messages == 0
        assert len(exclusive.deliveries) == 4


@pytest.mark.row("I15")
async def test_the_wheel_delivers_in_time_and_never_early(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=100)
    clock = run.broker.clock
    early: list[int] = []

    class Watching(ConsumerProbe):
        def deliver(self, deliveries):  # type: ignore[no-untyped-def]
            early.extend(d.entry.deliver_at_ms - clock.now_ms() for d in deliveries)
            super().deliver(deliveries)

    watching = Watching()
    await run.attach(watching, subscription="watching")
    watching.flow(100)
    for delay_ms in (150, 20, 80, 20):
        producer.send(deliver_at_ms=clock.now_ms() + delay_ms)
    await watching.has(4)
    await consumer.has(4)
    assert max(early) <= 0, "sent before it was due"
    assert min(early) > -1000
    assert sorted(watching.positions) == sorted(consumer.positions)


@pytest.mark.row("I15")
async def test_a_tick_alone_delivers_due_messages(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10_000)
        await delayed(producer, clock, *[1000] * 5000)
        rows(broker_url, "SELECT pg_notify('vela_tick', '{}')")
        clock.advance(1000)
        assert not consumer.deliveries
        rows(broker_url, "SELECT pg_notify('vela_tick', '{}')")
        await consumer.has(5000)


async def test_the_owner_releases_delayed_messages_that_only_the_tick_found(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        await delayed(producer, clock, 1000)
        run.broker.deadlines.forget(run.topic().delayed)
        clock.advance(1000)
        assert run.broker.deadlines.run_due() == 0
        assert sweep.tick(clock.now_ms()) == 1
        await consumer.has(1)


async def test_the_tick_finds_topics_with_due_rows(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        for topic in ("a", "b", "c"):
            producer = await run.producer(topic)
            await delayed(producer, clock, *[1000 if topic != "c" else 5000] * 3)
        assert sweep.tick(clock.now_ms() + 999) == 0
        assert sweep.tick(clock.now_ms() + 1000) == 2
        assert sweep.tick(clock.now_ms() + 5000) == 3


@pytest.mark.row("I15")
@pytest.mark.parametrize("crashes", [True, False])
async def test_delayed_messages_survive_a_restart_and_are_read_when_due(
    broker_url: str, crashes: bool
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        positions = await delayed(producer, clock, *[60_000] * 1500, 0, 30_000, *[60_000] * 40_000, 0)
        await consumer.has(2)
        await consumer.ack_durably(*consumer.positions)
        if not crashes:
            await run.broker.stop()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        consumer = await run.consumer(permits=10)
        await eventually(lambda: run.topic().delayed.near_entries, "due times to be read")
        assert len(run.topic().delayed) == 41_501
        assert run.topic().delayed.near_entries <= 2 * 8192
        assert not consumer.deliveries
        assert run.broker.cache.size_bytes == 0, "payloads of waiting messages were read"
        clock.advance(30_000)
        run_due(run)
        await consumer.has(1)
        assert consumer.positions == [positions[1501]]
        assert run.subscription().cursor.backlog_messages == 41_501


@pytest.mark.row("I15")
async def test_messages_that_came_due_while_no_broker_ran_are_delivered_at_the_start(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        await run.consumer()
        positions = await delayed(producer, clock, 2000, 1000, 9000)
    clock.advance(2000)
    async with running(broker_url, clock=clock) as run:
        consumer = await run.consumer(permits=10)
        await consumer.has(2)
        assert sorted(consumer.positions) == positions[:2]
        topic = run.topic()
        await eventually(lambda: topic.delayed.needs_pruning, "released entries to be noticed")
        await topic.delayed.prune()
        assert rows(broker_url, "SELECT entry_id FROM vela_delayed_entry") == [(2,)]


async def test_rows_are_written_with_the_entries_and_deleted_when_due(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer, plain = await run.producer(), await run.producer("plain")
        await plain.publish(3)
        positions = await delayed(producer, clock, 0, 700, 0, 300)
        await delayed(producer, clock, -5)  # in the past: at once
        topic = run.topic()
        assert rows(
            broker_url,
            "SELECT topic_id, deliver_at_ms, ledger_id, entry_id FROM vela_delayed_entry ORDER BY 2",
        ) == [
            (topic.topic_id, clock.now_ms() + 300, *positions[3]),
            (topic.topic_id, clock.now_ms() + 700, *positions[1]),
        ]
        clock.advance(300)
        assert run_due(run) == 1
        assert needs_pruning(run)
        await topic.delayed.prune()
        assert one_row(broker_url, "SELECT entry_id FROM vela_delayed_entry") == (positions[1].entry_id,)
        assert not needs_pruning(run)
        clock.advance(400)
        run_due(run)
        await topic.delayed.prune()
        assert rows(broker_url, "SELECT FROM vela_delayed_entry") == []


async def test_a_late_consumer_passes_over_delayed_entries_and_gets_them_when_due(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, tail_cache_bytes=0, **BY_HAND) as run:
        producer = await run.producer()
        await run.consumer()
        positions = await delayed(producer, clock, 500, 0, 500, 500, 0, 900)
        late = await run.consumer(name="late", permits=100)
        await late.has(2)
        assert late.positions == [positions[1], positions[4]]
        clock.advance(500)
        run_due(run)
        await late.has(5)
        assert late.positions[2:] == [positions[0], positions[2], positions[3]]
        assert late.consumer is not None
        late.consumer.detach()
        again = await run.consumer(name="again", permits=100)
        await again.has(5)
        assert again.positions == positions[:5]


async def test_acts_that_ack_delayed_messages_leave_nothing_to_deliver(broker_url: str) -> None:
    """Skip, reset and clear change only the cursor. When a waiting message is due, it is checked against the cursor."""
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        positions = await delayed(producer, clock, 500, 500, 500, 500)
        consumer.ack(positions[1])  # the consumer never got this message
        subscription = run.subscription()
        async with subscription.moves.moving(closes_consumers=False):
            subscription.cursor.move_mark_delete(positions[2])
            subscription.after_move()
        clock.advance(500)
        run_due(run)
        await consumer.has(1)
        assert consumer.positions == [positions[3]]
        consumer.ack(positions[3])
        assert subscription.cursor.backlog_messages == 0


async def test_a_reset_before_the_due_time_delays_them_again(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        positions = await delayed(producer, clock, 500, 0, 500)
        await consumer.has(1)
        consumer.ack(*positions)
        assert consumer.consumer is not None
        await consumer.consumer.seek_position(positions[0], None)
        again = await run.consumer(permits=100)
        await again.has(1)
        assert again.positions == [positions[1]]
        clock.advance(500)
        run_due(run)
        await again.has(3)


async def test_a_subscription_that_becomes_shared_delays_from_then_on(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        first = await run.consumer(type_=EXCLUSIVE, permits=1)
        positions = await delayed(producer, clock, 500, 500)
        await first.has(1)
        assert first.consumer is not None
        first.consumer.detach()
        second = await run.consumer(type_=SHARED, permits=10)
        assert not second.deliveries
        clock.advance(500)
        run_due(run)
        await second.has(2)
        assert second.positions == positions
