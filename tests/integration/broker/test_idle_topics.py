"""Unused topics leave memory and lose nothing."""

from __future__ import annotations

import asyncio

import pytest

from broker.upkeep import lifetime
from tests.integration.broker.test_trimming import applied
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, one_row, rows
from tests.support.lifetime import ENTRIES, consumed, keeping, publish_ledgers, settled, stored_ledgers

IDLE_MS = 300_000
NAME = "persistent://public/default/t"


async def left(run: BrokerRun, clock: ManualClock) -> bool:
    """Return whether the topic has left memory after it was unused for long enough."""
    topic = run.topic()
    await run.flushed()
    await run.broker.lifetime.look_at(topic)
    clock.advance(IDLE_MS)
    await run.broker.lifetime.look_at(topic)
    return NAME not in run.broker.topics.loaded


async def quiet(run: BrokerRun, *, topic: str = "t", backlog: int = 0) -> None:
    """Publish two messages, ack both or none, and disconnect all clients."""
    producer = await run.producer(topic)
    consumer = await run.consumer(topic, permits=10)
    positions = await producer.publish(2)
    await consumer.has(2)
    consumer.ack(*positions[backlog:])
    assert producer.producer is not None
    assert consumer.consumer is not None
    producer.producer.detach()
    consumer.consumer.detach()


async def test_an_idle_topic_leaves_and_comes_back_with_all_its_counts(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        await quiet(run)
        assert await left(run, clock)
        consumer = await run.consumer(permits=10)
        assert run.subscription().cursor.backlog_messages == 0
        assert run.topic().log.ledgers.total_messages == 2
        await (await run.producer()).publish(1)
        await consumer.has(1)
        assert run.subscription().cursor.backlog_messages == 1


async def test_a_topic_stays_while_a_client_is_connected_or_was_lately(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        producer = await run.producer()
        assert not await left(run, clock)
        assert producer.producer is not None
        producer.producer.detach()
        consumer = await run.consumer()
        assert not await left(run, clock)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        clock.advance(IDLE_MS - 1)
        await run.broker.lifetime.look_at(run.topic())
        assert NAME in run.broker.topics.loaded
        clock.advance(1)
        await run.broker.lifetime.look_at(run.topic())
        assert NAME not in run.broker.topics.loaded


@pytest.mark.parametrize("reason", ["undo", "backlog"])
async def test_a_topic_stays_while_it_has_a_backlog_or_an_act_can_be_undone(
    broker_url: str, reason: str
) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        await quiet(run, backlog=1)
        if reason == "undo":
            await applied(run, "clear", {})
        assert not await left(run, clock)
        assert "vela_subscription_backlog_messages" in run.metrics_text()


@pytest.mark.parametrize("set_back_ms", [0, 10**10])
async def test_an_unloaded_topic_is_trimmed_and_its_segment_dropped(
    broker_url: str, set_back_ms: int
) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        if set_back_ms:
            clock.advance(set_back_ms)
            await run.broker.lifetime.visit_absent()
            clock.advance(-set_back_ms)
        producer = await run.producer()
        await publish_ledgers(producer, 2)
        consumer = await run.consumer(permits=100, acks=True)
        await consumer.has(2 * ENTRIES)
        await settled(run)
        assert producer.producer is not None
        assert consumer.consumer is not None
        producer.producer.detach()
        consumer.consumer.detach()
        segments = run.broker.segments
        closed = segments.open_id
        clock.advance(IDLE_MS)
        run.broker.topics.loaded[NAME].log.close()
        segments._opened_ms = clock.now_ms()
        clock.advance(10**9)
        await segments.turn()
        assert segments.open_id != closed
        await run.broker.lifetime.visit_absent()
        (last,) = stored_ledgers(broker_url)
        assert one_row(broker_url, "SELECT state, entries, segment_id FROM vela_ledger") == (
            "sealed",
            0,
            None,
        )
        await run.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{closed}") == [(None,)]
        run.broker.topics.loaded[NAME].log.close()
        run.broker.lifetime._next_visits_ms = 0
        await run.broker.lifetime.visit_absent()
        assert NAME not in run.broker.topics.loaded, "there is nothing to free: it is not loaded again"
        (position,) = await (await run.producer()).publish(1)
        assert position.ledger_id > last
        assert run.topic().log.ledgers.total_messages == 2 * ENTRIES + 1


async def test_celery_wakes_an_owner_without_timers(broker_url: str) -> None:
    async with keeping(broker_url, wheel_enabled=False, lifetime_check_ms=1000) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 3)
        await consumed(run, 3 * ENTRIES)
        assert len(stored_ledgers(broker_url)) == 3
        rows(broker_url, "SELECT pg_notify('vela_lifetime', '')")
        await eventually(lambda: len(stored_ledgers(broker_url)) == 1, "the trim", timeout_s=5)


async def test_celery_has_all_topics_visited_while_none_is_in_memory(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetime, "_VISITS", 1)
    async with keeping(broker_url, wheel_enabled=False, lifetime_check_ms=1000) as run:
        for topic in ("t", "u"):
            await quiet(run, topic=topic, backlog=2)
            await run.policies(topic, message_ttl_ms=IDLE_MS)
        backlog = "SELECT 1 FROM vela_topic_summary WHERE max_backlog_messages > 0"
        await eventually(lambda: len(rows(broker_url, backlog)) == 2, "the reports")
        for topic in ("t", "u"):
            run.topic(topic).log.close()
        assert not run.broker.topics.loaded
        rows(broker_url, "SELECT pg_notify('vela_lifetime', '')")
        await eventually(lambda: len(run.broker.topics.loaded) == 2, "both visits", timeout_s=5)


async def test_the_owner_alone_trims_by_its_own_clock(broker_url: str) -> None:
    async with keeping(broker_url, lifetime_check_ms=1000) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100, acks=True)
        await publish_ledgers(producer, 3)
        await consumer.has(3 * ENTRIES)
        await eventually(lambda: len(stored_ledgers(broker_url)) == 1, "the trim", timeout_s=8)


async def test_a_topic_stays_while_it_is_compacted(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock, compaction_rate_bytes=1) as run:
        await quiet(run)
        topic = run.topic()
        task = asyncio.create_task(run.broker.compactor.compact(topic))
        await eventually(lambda: topic.compacted.trim_limit, "the run to begin")
        assert not await left(run, clock)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await left(run, clock)
