"""Non-persistent topics deliver to connected consumers with permits only. Nothing reaches PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.entry import FLAG_MARKER
from broker.core.errors import (
    ConsumerBusy,
    NotAllowed,
    ProducerBusy,
    ProducerFenced,
    ServiceNotReady,
    SubscriptionBusy,
)
from broker.core.position import Position
from broker.core.producers.access import AccessMode
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.subscription.requests import AckRequest
from broker.topics.policies import Holder
from tests.support.broker_harness import BrokerRun, ConsumerProbe, one_row, rows

T = "non-persistent://public/default/ticks"


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_refused_producer_leaves_no_topic_behind(run: BrokerRun) -> None:
    with pytest.raises(NotAllowed, match="does not deduplicate"):
        await run.producer("non-persistent://public/default/x", properties={"vela.requires": "deduplication"})
    assert run.broker.non_persistent.all() == []


async def test_connected_consumers_get_a_message_and_others_miss_it(run: BrokerRun) -> None:
    producer = await run.producer(T)
    await producer.publish(2)
    consumer = await run.consumer(T, permits=3)
    await producer.publish(5)
    await settle()
    assert consumer.payloads == [b"2", b"3", b"4"]
    (topic,) = run.broker.non_persistent.all()
    assert topic.messages_in == 7
    assert topic.subscriptions["s"].messages_dropped == 2
    consumer.flow(10)
    await settle()
    assert len(consumer.deliveries) == 3, "dropped messages stay dropped"
    await producer.publish(1)
    assert consumer.payloads[3:] == [b"7"]
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (0,)
    assert run.broker.writer.commits == 0


async def test_a_marker_reaches_no_consumer(run: BrokerRun) -> None:
    producer = await run.producer(T)
    consumer = await run.consumer(T, permits=2)
    producer.send(flags=FLAG_MARKER)
    producer.send()
    producer.send(flags=FLAG_MARKER)
    producer.send()
    await producer.has_receipts(4)
    assert consumer.payloads == [b"1", b"3"]  # the markers took no permits
    (topic,) = run.broker.non_persistent.all()
    assert topic.subscriptions["s"].messages_dropped == 0


async def test_every_subscription_gets_a_copy_and_shared_ones_take_turns(run: BrokerRun) -> None:
    alone = await run.consumer(T, "alone", SubscriptionType.EXCLUSIVE, permits=100)
    first = await run.consumer(T, permits=100, name="a")
    second = await run.consumer(T, permits=100, name="b")
    producer = await run.producer(T)
    await producer.publish(60)
    assert alone.payloads == [b"%d" % number for number in range(60)]
    assert sorted([*first.payloads, *second.payloads]) == sorted(alone.payloads)
    assert first.payloads
    assert second.payloads


@pytest.mark.row("S4.8")
async def test_an_ack_on_a_non_persistent_topic_does_nothing(run: BrokerRun) -> None:
    consumer = await run.consumer(T, permits=10)
    producer = await run.producer(T)
    (position,) = await producer.publish(1)
    assert await consumer.ack_durably(position) is None
    assert await consumer.ack_durably(Position(1, 1), cumulative=True) is None
    assert consumer.consumer is not None
    consumer.consumer.redeliver(None)
    consumer.consumer.redeliver_at([position], 0)
    await settle()
    assert len(consumer.deliveries) == 1
    with pytest.raises(NotAllowed, match="nowhere to seek"):
        await consumer.consumer.seek_position(position, None)
    with pytest.raises(NotAllowed, match="nowhere to seek"):
        await consumer.consumer.seek_time(0)
    assert (await consumer.consumer.last_message()).position == Position(-1, -1)


async def test_a_dropped_batch_restores_its_permits(run: BrokerRun) -> None:
    consumer = await run.consumer(T, permits=10)
    producer = await run.producer(T)
    (position,) = await producer.publish(1, messages=10)
    assert consumer.consumer is not None
    assert consumer.consumer.dispatch.permits.balance == 0
    consumer.consumer.ack([AckRequest(position)], cumulative=False, validation_error="CHECKSUM_MISMATCH")
    consumer.flow(1)
    assert consumer.consumer.dispatch.permits.balance == 10


async def test_a_peer_that_does_not_read_delays_no_other_peer(run: BrokerRun) -> None:
    slow = await run.consumer(T, "slow", permits=100)
    fast = await run.consumer(T, "fast", permits=100)
    slow.writable = False
    producer = await run.producer(T)
    await producer.publish(1)
    await producer.publish(10)
    assert len(fast.deliveries) == 11
    assert len(slow.deliveries) <= 1
    assert slow.consumer is not None
    slow.writable = True
    slow.consumer.writable_again()
    await producer.publish(1)
    assert slow.payloads[-1] == b"11"


async def test_types_and_access_modes_apply_to_non_persistent_topics(run: BrokerRun) -> None:
    await run.consumer(T, "alone", SubscriptionType.EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        await run.consumer(T, "alone", SubscriptionType.EXCLUSIVE)
    with pytest.raises(SubscriptionBusy):
        await run.consumer(T, "alone", SubscriptionType.SHARED)
    await run.producer(T, access_mode=AccessMode.EXCLUSIVE)
    with pytest.raises(ProducerFenced):
        await run.producer(T, access_mode=AccessMode.EXCLUSIVE)


class SilentConsumer(ConsumerProbe):
    """A consumer whose peer does not answer the ping until it has left."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = asyncio.Event()
        self.left = asyncio.Event()

    async def is_alive(self) -> bool:
        self.pinged.set()
        await self.left.wait()
        return False


async def test_two_consumers_never_use_two_subscriptions_of_one_name(run: BrokerRun) -> None:
    silent = SilentConsumer()
    await run.attach(silent, T, "alone", SubscriptionType.EXCLUSIVE)
    waiting = asyncio.ensure_future(run.consumer(T, "alone", SubscriptionType.EXCLUSIVE))
    await silent.pinged.wait()
    assert silent.consumer is not None
    silent.consumer.detach()
    third = await run.consumer(T, "alone", SubscriptionType.EXCLUSIVE, permits=10)
    silent.left.set()
    with pytest.raises(ServiceNotReady, match="subscribe again"):
        await waiting
    producer = await run.producer(T)
    await producer.publish(1)
    await third.has(1)


async def test_the_topic_disappears_with_its_last_client(run: BrokerRun) -> None:
    consumer = await run.consumer(T)
    producer = await run.producer(T)
    assert await run.broker.topics_of_namespace("public/default") == [T]
    assert producer.producer is not None
    producer.producer.detach()
    assert run.broker.non_persistent.all()
    assert consumer.consumer is not None
    await consumer.consumer.unsubscribe(force=False)
    assert run.broker.non_persistent.all() == []
    assert await run.broker.topics_of_namespace("public/default") == []
    await run.consumer(T)


async def test_the_metrics_of_a_non_persistent_topic_are_shown(run: BrokerRun) -> None:
    await run.consumer(T, permits=1)
    producer = await run.producer(T)
    await producer.publish(3)
    text = run.metrics_text()
    labels = f'cluster="vela",namespace="public/default",topic="{T}"'
    assert f"pulsar_in_messages_total{{{labels}}} 3" in text
    assert f"pulsar_producers_count{{{labels}}} 1" in text
    assert f'vela_subscription_dropped_messages_total{{{labels},subscription="s"}} 2' in text
    assert f'vela_subscription_out_messages_total{{{labels},subscription="s"}} 1' in text


async def test_a_partition_of_a_non_persistent_topic_can_be_published_to(run: BrokerRun) -> None:
    name = TopicName.parse(T)
    assert await run.broker.partition_count(name, create=True) == 0
    producer = await run.producer(f"{T}-partition-0")
    assert producer.producer is not None
    assert producer.producer.topic_name.partition == 0


async def test_policies_of_the_namespace_apply_and_change_while_it_is_used(run: BrokerRun) -> None:
    await run.producer("persistent://public/default/makes-the-namespace")
    rows(run.database_url, "UPDATE vela_namespace SET policies = '{\"max_producers\": 1}'")
    first = await run.producer(T)
    with pytest.raises(ProducerBusy, match="max_producers"):
        await run.producer(T)
    rows(run.database_url, "UPDATE vela_namespace SET policies = '{\"max_producers\": 2}'")
    holder = Holder.of_namespace("public/default")
    assert await run.broker.policies.reload(holder) == 2
    await run.producer(T)
    await first.publish(1)


async def test_failover_switches_at_once_and_key_shared_sends_each_key_to_one_consumer(
    run: BrokerRun,
) -> None:
    first = await run.consumer(T, "f", SubscriptionType.FAILOVER, permits=100, name="a")
    await settle()
    standby = await run.consumer(T, "f", SubscriptionType.FAILOVER, permits=100, name="b", priority=1)
    keyed = [
        await run.consumer(T, "k", SubscriptionType.KEY_SHARED, permits=100, name=name) for name in "xyz"
    ]
    await settle()
    assert (first.active, standby.active) == ([True], [False])
    producer = await run.producer(T)
    for number in range(60):
        producer.send(slot=number % 20 * 3000 + 1)
    await producer.has_receipts(60)
    assert (len(first.deliveries), len(standby.deliveries)) == (60, 0)
    assert sum(len(each.deliveries) for each in keyed) == 60
    slots = [{delivery.entry.key_hash for delivery in each.deliveries} for each in keyed]
    assert sum(map(len, slots)) == len(set().union(*slots)) == 20
    assert first.consumer is not None
    first.consumer.detach()
    assert standby.active == [False, True]
    await producer.publish(1)
    assert len(standby.deliveries) == 1
