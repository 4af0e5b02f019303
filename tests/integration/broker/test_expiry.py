"""Time to live: the broker acks messages that are too old, for each subscription, and counts them."""

from __future__ import annotations

import json

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.expiry import expire, expire_target
from tests.support.broker_harness import BrokerRun, ManualClock, ProducerProbe, rows
from tests.support.lifetime import ENTRIES, keeping, kept, look, publish_ledgers, recounted

SECOND_MS = 1000


async def hourly(run: BrokerRun, clock: ManualClock, ledgers: int) -> tuple[ProducerProbe, list[Position]]:
    """Publish entries one second apart over this many ledgers, for an existing subscription."""
    producer = await run.producer()
    positions: list[Position] = []
    for _ in range(ledgers * ENTRIES):
        positions += await producer.publish(1, messages=2)
        clock.advance(SECOND_MS)
    return producer, positions


async def test_older_messages_are_acked_first_by_whole_ledgers_and_then_inside_one(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        await run.consumer()
        _, positions = await hourly(run, clock, 3)
        subscription = run.subscription()
        # The last entry was appended one second ago, and the first entry twelve seconds ago.
        assert await expire(subscription, 13 * SECOND_MS) == 0
        assert await expire(subscription, 12 * SECOND_MS) == 0, "an entry of exactly this age is not older"
        assert await expire(subscription, int(11.5 * SECOND_MS)) == 2
        assert subscription.cursor.mark_delete == positions[0]
        assert await expire(subscription, 2 * SECOND_MS + 500) == 2 * 9
        assert subscription.cursor.mark_delete == positions[9]
        assert await expire(subscription, 2 * SECOND_MS + 500) == 0
        assert (subscription.counters.messages_expired, subscription.cursor.backlog_messages) == (20, 4)
        assert subscription.cursor.version == 0, "a plan made before stays valid"
        await recounted(run)
        assert await expire(subscription, 0) == 4
        assert await expire_target(subscription, clock.now_ms()) is None


async def test_in_flight_messages_expire_too_and_their_consumers_stay_connected(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        consumer = await run.consumer(permits=100)
        producer, positions = await hourly(run, clock, 1)
        await consumer.has(ENTRIES)
        assert await expire(run.subscription(), SECOND_MS + 500) == 2 * (ENTRIES - 1)
        assert run.subscription().dispatcher.unacked_messages == 2
        assert consumer.closed == []
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        await consumer.has(ENTRIES + 1)
        assert consumer.positions[ENTRIES:] == positions[-1:], "expired messages are not delivered again"
        consumer.ack(*positions)
        await producer.publish(1)
        await consumer.has(ENTRIES + 2)
        assert run.subscription().cursor.backlog_messages == 1


async def test_the_policy_expires_each_subscription_and_frees_ledgers_beyond_retention(
    broker_url: str,
) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        await run.consumer(subscription="idle")
        await run.consumer(subscription="exclusive", type_=SubscriptionType.EXCLUSIVE)
        await hourly(run, clock, 3)
        await look(run)
        assert len(kept(run)) == 3, "no time to live"
        rows(
            broker_url,
            "UPDATE vela_topic SET policies = %s",
            json.dumps({"message_ttl_ms": 2 * SECOND_MS + 500}),
        )
        run.broker.topics.loaded.clear()
        await run.consumer(subscription="idle")
        await look(run)
        await run.flushed()
        await look(run)
        for name in ("idle", "exclusive"):
            assert run.subscription(subscription=name).cursor.backlog_messages == 4
            assert run.subscription(subscription=name).counters.messages_expired == 20
        assert len(kept(run)) == 1
        await recounted(run)
        assert (
            'pulsar_subscription_total_msg_expired{cluster="vela",namespace="public/default",'
            'topic="persistent://public/default/t",subscription="idle"} 20' in run.metrics_text()
        )


async def test_expired_messages_are_expired_once_and_stay_so_after_a_restart(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        await run.consumer()
        _, positions = await hourly(run, clock, 2)
        await publish_ledgers(await run.producer(), 1)
        assert await expire(run.subscription(), 500) == 4 * ENTRIES
        await run.flushed()
    async with keeping(broker_url, clock=clock) as again:
        consumer = await again.consumer(permits=100)
        await consumer.has(ENTRIES)
        assert positions[-1] not in consumer.positions
        assert again.subscription().cursor.backlog_messages == ENTRIES
