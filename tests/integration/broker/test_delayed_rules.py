"""Delayed delivery: several subscriptions, permits, the policy, and clocks that are set back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.errors import NotAllowed
from broker.log import delayed as delayed_messages
from tests.integration.broker.delaying import BY_HAND, delayed, run_due
from tests.support.broker_harness import (
    ManualClock,
    eventually,
    one_row,
    running,
)
from tests.support.postgres_proxy import Moment


async def test_several_subscriptions_share_one_tracker(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumers = [await run.consumer(subscription=f"s{n}", permits=100) for n in range(3)]
        positions = await delayed(producer, clock, 500, 500)
        assert len(run.topic().delayed) == 2
        clock.advance(500)
        assert run_due(run) == 2
        for each in consumers:
            await each.has(2)
            assert each.positions == positions


async def test_many_messages_due_at_once_wait_for_permits_to_be_replayed(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, tail_cache_bytes=0) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        positions = await delayed(producer, clock, *[500] * 9000)
        clock.advance(500)
        await eventually(lambda: not len(run.topic().delayed), "everything to be released")
        await consumer.has(10)
        assert run.subscription().dispatcher.replay_entries == 9000 - 10
        consumer.flow(9000)
        await consumer.has(9000)
        assert sorted(consumer.positions) == positions


@pytest.mark.row("I15")
async def test_the_message_due_first_is_sent_first_when_the_broker_is_slow(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, tail_cache_bytes=0, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10_000)
        positions = await delayed(producer, clock, *[700] * 300, *[500] * 300)
        read = run.proxy.trap("entry_id = ANY", Moment.HOLD_REQUEST)
        clock.advance(500)
        assert run_due(run) == 300
        await read.caught.wait()
        clock.advance(200)
        assert run_due(run) == 0  # the others are still being read
        read.release()
        await consumer.has(600)
        assert sorted(consumer.positions[:300]) == positions[300:]


async def test_the_policy_switches_delays_off_and_on(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        topic = run.topic()
        await delayed(producer, clock, *[60_000] * 3)
        assert not consumer.deliveries
        topic.set_policies(replace(topic.policies, delayed_delivery=False))
        await consumer.has(3)
        await delayed(producer, clock, 60_000)
        await consumer.has(4)
        topic.set_policies(replace(topic.policies, delayed_delivery=True))
        await delayed(producer, clock, 500)
        clock.advance(499)
        run_due(run)
        assert len(consumer.deliveries) == 4
        clock.advance(1)
        run_due(run)
        await consumer.has(5)
        consumer.ack(*consumer.positions)
        assert run.subscription().cursor.backlog_messages == 0


async def test_without_delays_even_the_latest_delivery_time_is_due(broker_url: str) -> None:
    async with running(broker_url, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        producer.send(deliver_at_ms=2**63 - 1)
        await producer.has_receipts(1)
        topic = run.topic()
        assert len(topic.delayed) == 1
        topic.set_policies(replace(topic.policies, delayed_delivery=False))
        await consumer.has(1)
        assert topic.delayed.next_due_ms() is None


async def test_messages_appended_while_delays_were_off_are_delayed_once_they_are_on(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        await run.consumer()
        topic = run.topic()
        topic.set_policies(replace(topic.policies, delayed_delivery=False))
        positions = await delayed(producer, clock, 500, 0)
        assert run_due(run) == 1
        topic.set_policies(replace(topic.policies, delayed_delivery=True))
        late = await run.consumer(name="late", permits=10)
        await late.has(1)
        assert late.positions == [positions[1]]
        clock.advance(500)
        run_due(run)
        await late.has(2)


async def test_without_strict_a_message_may_come_one_tick_early_at_most(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, tick_ms=1000, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        topic = run.topic()
        topic.set_policies(replace(topic.policies, delayed_strict=False))
        await delayed(producer, clock, 1500)
        clock.advance(499)
        run_due(run)
        assert not consumer.deliveries
        clock.advance(1)
        run_due(run)
        await consumer.has(1)


async def test_a_delay_above_the_policy_is_refused_and_nothing_is_stored(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        topic = run.topic()
        topic.set_policies(replace(topic.policies, max_delay_ms=1000))
        producer.send(deliver_at_ms=clock.now_ms() + 1001)
        await eventually(lambda: producer.failed, "a refusal")
        assert isinstance(producer.failed[0][1], NotAllowed)
        assert "max_delay_ms" in str(producer.failed[0][1])
        await delayed(producer, clock, 1000)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (1,)


async def test_a_clock_that_is_set_back_delays_due_messages_again(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=0)
        await delayed(producer, clock, 500)
        clock.advance(500)
        run_due(run)
        clock.advance(-400)
        consumer.flow(10)
        assert not consumer.deliveries
        assert len(run.topic().delayed) == 1
        clock.advance(400)
        run_due(run)
        await consumer.has(1)


async def test_the_near_window_is_refilled_from_the_table(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_messages, "WINDOW_ENTRIES", 8)
    clock = ManualClock()
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        producer = await run.producer()
        await run.consumer()
        await delayed(producer, clock, *[100 * (1 + n * 7 % 100) for n in range(100)])
    async with running(broker_url, clock=clock, **BY_HAND) as run:
        consumer = await run.consumer(permits=1000)
        due = [clock.now_ms() + 100 * n for n in range(1, 101)]
        for done in range(100):
            await eventually(lambda: run.topic().delayed.near_entries, "due times to be read")
            clock.advance(100)
            run_due(run)
            await consumer.has(done + 1)
        assert [each.entry.deliver_at_ms for each in consumer.deliveries] == due
