"""Publish and dispatch rates: the broker stops reading from fast producers, and delays deliveries; nothing is lost."""

from __future__ import annotations

from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import ManualClock, ProducerProbe, running


async def test_publishing_over_the_rate_stops_reading_and_stores_messages_already_read(
    broker_url: str,
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        topic = await run.policies("t", publish_rate_messages=10)
        switched: list[bool] = []
        fast = await run.producer(name="fast", on_throttled=switched.append)
        calm = await run.producer("other", name="calm", on_throttled=switched.append)
        for _ in range(15):
            fast.send()
        assert switched == [True]
        await fast.has_receipts(15)
        await calm.publish(30)
        limit = topic.publish_limit
        assert limit is not None
        clock.advance(599)
        limit.refilled()
        assert switched == [True], "5 messages of debt and one to come"
        clock.advance(1)
        limit.refilled()
        assert switched == [True, False]
        assert limit.times == 1


async def test_the_rate_in_bytes_is_kept_until_it_is_removed(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock()) as run:
        topic = await run.policies("t", publish_rate_bytes=100)
        switched: list[bool] = []
        producer = await run.producer(on_throttled=switched.append)
        producer.send(b"x" * 50)
        assert switched == []
        producer.send(b"x" * 50)
        assert switched == [True]
        await run.policies("t", publish_rate_bytes=0)
        assert switched == [True, False]
        assert topic.publish_limit is None
        await producer.publish(100)


async def test_changing_another_policy_keeps_the_debt(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock()) as run:
        await run.policies("t", publish_rate_messages=10)
        switched: list[bool] = []
        producer = await run.producer(on_throttled=switched.append)
        await producer.publish(30)
        await run.policies("t", publish_rate_messages=10, max_producers=5)
        assert switched == [True]
        topic = await run.policies("t", publish_rate_messages=20)
        assert switched == [True, False]
        await producer.publish(30)
        assert topic.publish_limit is not None
        assert topic.publish_limit.times == 2


async def test_a_throttled_producer_that_leaves_lets_its_connection_go_on(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock()) as run:
        await run.policies("t", publish_rate_messages=1)
        switched: list[bool] = []
        producer = await run.producer(on_throttled=switched.append)
        await producer.publish(2)
        assert producer.producer is not None
        producer.producer.detach()
        assert switched == [True, False]


async def test_dispatch_waits_for_the_subscription_s_rate_to_the_millisecond(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        await run.policies("t", subscription_dispatch_rate_messages=10)
        consumer = await run.consumer(permits=1000)
        other = await run.consumer(subscription="other", permits=1000)
        producer = await run.producer()
        await producer.publish(25)
        await consumer.has(10)
        await other.has(10)
        subscription = run.subscription()
        assert subscription.dispatch_limit is not None
        for _ in range(5):
            clock.advance(100)
            subscription.pump()
        assert len(consumer.deliveries) == 15
        clock.advance(99)
        subscription.pump()
        assert len(consumer.deliveries) == 15
        clock.advance(10_000)
        subscription.pump()
        assert consumer.payloads == [b"%d" % number for number in range(25)]
        assert len(other.deliveries) == 10, "its own bucket"
        assert subscription.dispatch_limit.times >= 1


async def test_the_topic_s_rate_is_shared_by_its_subscriptions(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        await run.policies("t", dispatch_rate_messages=10)
        probes = [
            await run.consumer(subscription=name, permits=1000, type_=type_)
            for name, type_ in (("a", SubscriptionType.SHARED), ("b", SubscriptionType.EXCLUSIVE))
        ]
        producer = await run.producer()
        await producer.publish(20)
        assert sum(len(each.deliveries) for each in probes) == 10
        for _ in range(40):
            clock.advance(100)
            for subscription in run.topic().subscriptions.values():
                subscription.pump()
        assert [each.payloads for each in probes] == [[b"%d" % number for number in range(20)]] * 2


async def test_a_throttled_subscription_continues_by_its_own_timer(broker_url: str) -> None:
    async with running(broker_url) as run:
        await run.policies("t", subscription_dispatch_rate_messages=50, publish_rate_messages=500)
        consumer = await run.consumer(permits=1000, acks=True)
        producer: ProducerProbe = await run.producer()
        await producer.publish(60)
        await consumer.has(60)
        assert consumer.payloads == [b"%d" % number for number in range(60)]


async def test_redeliveries_count_for_the_rate_too(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        consumer = await run.consumer(permits=1000)
        producer = await run.producer()
        positions = await producer.publish(30)
        await consumer.has(30)
        await run.policies("t", subscription_dispatch_rate_messages=10)
        assert consumer.consumer is not None
        consumer.consumer.redeliver(positions)
        assert len(consumer.deliveries) == 40
        for _ in range(20):
            clock.advance(100)
            run.subscription().pump()
        assert sorted(consumer.positions[30:]) == positions
