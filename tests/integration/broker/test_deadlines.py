"""Deadlines that the broker keeps, by its timing wheel or by ticks alone: ack timeouts and delayed negative acks."""

from __future__ import annotations

import pytest

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.log import sweep
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, rows, running

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def tick(run: BrokerRun) -> None:
    """Send the notification that Celery's tick sends when it has found nothing."""
    rows(run.database_url, "SELECT pg_notify('vela_tick', '{}')")


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_a_tick_alone_redelivers_messages_not_acked_in_time(
    broker_url: str, type_: SubscriptionType
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=type_, permits=100, ack_timeout_ms=1000)
        positions = await producer.publish(4)
        await consumer.has(4)
        consumer.ack(positions[1])
        clock.advance(999)
        tick(run)
        assert run.broker.deadlines.run_due() == 0
        clock.advance(1)
        tick(run)
        await consumer.has(7)
        assert consumer.positions[4:] == [positions[0], positions[2], positions[3]]
        counts = [each.redelivery_count for each in consumer.deliveries[4:]]
        assert counts == ([1, 1, 1] if type_ is SHARED else [0, 0, 0])
        tick(run)
        tick(run)
        assert run.broker.deadlines.run_due() == 0
        clock.advance(1000)
        tick(run)
        await consumer.has(10)


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_the_owner_redelivers_entries_that_only_the_tick_found(
    broker_url: str, monkeypatch: pytest.MonkeyPatch, type_: SubscriptionType
) -> None:
    clock = ManualClock()
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=type_, permits=100, ack_timeout_ms=1000)
        (position,) = await producer.publish(1)
        await consumer.has(1)
        deadlines = "SELECT DISTINCT deadline_ms FROM vela_pending_ack"
        due_ms = clock.now_ms() + 1000
        await eventually(
            lambda: rows(broker_url, deadlines) == [(due_ms,)], "the deadline to be written down"
        )
        run.broker.deadlines.forget(run.subscription())
        clock.advance(1000)
        assert run.broker.deadlines.run_due() == 0
        assert sweep.tick(clock.now_ms() - 1) == 0
        assert sweep.tick(clock.now_ms()) == 1
        await consumer.has(2)
        assert consumer.positions == [position, position]


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_the_wheel_alone_redelivers(broker_url: str, type_: SubscriptionType) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=type_, permits=100, ack_timeout_ms=60)
        positions = await producer.publish(3)
        await consumer.has(6)
        assert sorted(consumer.positions[3:6]) == positions
        consumer.ack(*positions)


async def test_a_negatively_acked_message_comes_back_when_it_is_due_and_not_before(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        positions = await producer.publish(4)
        await consumer.has(4)
        assert consumer.consumer is not None
        consumer.consumer.redeliver_at(positions[:2], clock.now_ms() + 500)
        consumer.ack(positions[0])
        clock.advance(499)
        assert run.broker.deadlines.run_due() == 0
        clock.advance(1)
        assert run.broker.deadlines.run_due() == 1
        await consumer.has(5)
        assert consumer.positions[4] == positions[1]
        consumer.consumer.redeliver_at([positions[2]], clock.now_ms())  # due already
        await consumer.has(6)


async def test_a_client_cannot_fill_the_timer_wheel_with_made_up_positions(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=2)
        other = await run.consumer(name="other")
        positions = await producer.publish(4)
        await consumer.has(2)
        invented = [Position(positions[0].ledger_id, number) for number in range(2, 5000)]
        assert other.consumer is not None
        other.consumer.redeliver_at(positions, clock.now_ms() + 500)
        other.consumer.redeliver_at(invented, clock.now_ms() + 500)
        assert len(run.subscription().deadlines) == 0


async def test_deadlines_end_when_their_exclusive_consumer_leaves(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        first = await run.consumer(type_=EXCLUSIVE, permits=5, ack_timeout_ms=1000)
        positions = await producer.publish(5)
        await first.has(5)
        assert first.consumer is not None
        first.consumer.detach()
        clock.advance(900)
        second = await run.consumer(type_=EXCLUSIVE, permits=100, ack_timeout_ms=1000)
        await second.has(5)
        clock.advance(200)  # the deadlines of `first` have passed, those of `second` have not
        assert run.broker.deadlines.run_due() == 0
        assert second.positions == positions


async def test_a_redelivery_of_all_on_exclusive_restarts_every_timeout(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=EXCLUSIVE, permits=4, ack_timeout_ms=1000)
        await producer.publish(2)
        await consumer.has(2)
        clock.advance(500)
        await producer.publish(2)
        await consumer.has(4)
        clock.advance(500)
        # All must be redelivered, but there are no permits left for them.
        assert run.broker.deadlines.run_due() == 2
        clock.advance(500)
        assert run.broker.deadlines.run_due() == 0
        consumer.flow(10)
        await eventually(lambda: len(consumer.deliveries) == 8, "all four again, once")


@pytest.mark.row("I22")
async def test_requesting_another_consumers_message_does_not_stop_its_timeout(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        holder = await run.consumer(permits=1, ack_timeout_ms=1000, name="holder")
        (position,) = await producer.publish(1)
        await holder.has(1)
        other = await run.consumer(name="other")
        assert other.consumer is not None
        other.consumer.redeliver([position])
        holder.flow(1)
        clock.advance(1000)
        tick(run)
        await holder.has(2)
        assert holder.positions == [position, position]
