"""Subscriptions of a whole Vela: their types, redelivery, seeks and deletion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.acceptance.client.consumer.consuming import (
    QUIET_MS,
    all_acknowledged,
    becomes,
    broker_has_permits,
    data,
    numbers,
    publish,
    take,
)
from tests.acceptance.client.publishing import publish_entries
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from tests.unit.client.entries import compose, metadata, single
from vela.aio.client import Client
from vela.aio.consumers.options import ConsumerOptions
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.errors import ConsumerBusy, ReadError, Timeout
from vela.message import MessageId
from vela.options import (
    ConsumerKeySharedPolicy,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
)


@pytest.mark.row("S4.24")
async def test_redelivery_on_exclusive_is_in_order(
    tcp_client: Client, topic: str, shared_vela: VelaProcess
) -> None:
    consumer = await tcp_client.subscribe(topic, "s", receiver_queue_size=20)
    await publish(tcp_client, topic, numbers(30), size=3)
    messages = await take(consumer, 9, acknowledge=False)
    consumer.acknowledge_cumulative(messages[2])
    consumer.redeliver_unacknowledged_messages()
    assert data(await take(consumer, 27)) == numbers(30)[3:]
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
    await broker_has_permits(shared_vela, consumer, 20)


async def test_redelivery_on_shared_raises_the_redelivery_count(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    await publish(client, topic, numbers(4))
    assert {message.redelivery_count() for message in await take(consumer, 4, acknowledge=False)} == {0}
    consumer.redeliver_unacknowledged_messages()
    assert {message.redelivery_count() for message in await take(consumer, 4)} == {1}


@pytest.mark.parametrize("inclusive", [False, True])
async def test_a_seek_goes_to_a_message_and_to_a_time(client: Client, topic: str, inclusive: bool) -> None:
    consumer = await client.subscribe(topic, "s", start_message_id_inclusive=inclusive)
    await publish(client, topic, numbers(40), size=4)
    messages = await take(consumer, 40)
    for at in (21, 23, 0, 39):
        await consumer.seek(messages[at].message_id())
        expected = numbers(40)[at if inclusive else at + 1 :]
        assert data(await take(consumer, len(expected))) == expected
        await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
    await consumer.seek(MessageId.earliest)
    assert data(await take(consumer, 40)) == numbers(40)
    await consumer.seek(lambda name: messages[10].publish_timestamp())
    assert data(await take(consumer, 40)) == numbers(40)  # all messages have the same publish time
    await consumer.seek(MessageId.latest)
    with pytest.raises(Timeout):
        await consumer.receive(QUIET_MS)
    await publish(client, topic, [b"new"])
    assert data(await take(consumer, 1)) == [b"new"]
    last = await consumer.get_last_message_id()
    assert last > messages[39].message_id()


async def test_messages_in_the_queue_when_a_seek_begins_are_not_returned(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, numbers(20))
    first = (await take(consumer, 1))[0]
    await until(lambda: len(consumer.queue) == 19, "the others")
    waiting = asyncio.create_task(consumer.seek(MessageId.earliest))
    await asyncio.sleep(0)
    receiving = consumer.receive_async()
    await waiting
    assert (await receiving).message_id() == first.message_id()


async def test_a_non_durable_subscription_continues_after_the_last_taken_message(
    client: Client, topic: str
) -> None:

    await publish(client, topic, numbers(30), size=3)
    options = ConsumerOptions(
        subscription_name="reading", durable=False, start_message_id=MessageId.earliest, receiver_queue_size=5
    )
    consumer = TopicConsumer(client, topic, options)
    await consumer.open()
    messages = await take(consumer, 10, acknowledge=False)
    assert data(messages) == numbers(30)[:10]
    link = consumer.link.connection
    assert link is not None
    link.abort(ReadError("cut by the test"))
    assert data(await take(consumer, 20, acknowledge=False)) == numbers(30)[10:]
    await consumer.close()
    for inclusive in (True, False):
        options = ConsumerOptions(
            subscription_name="reading",
            durable=False,
            start_message_id=messages[7].message_id(),
            start_message_id_inclusive=inclusive,
        )
        again = TopicConsumer(client, topic, options)
        await again.open()
        expected = numbers(30)[7 if inclusive else 8 :]
        assert data(await take(again, len(expected), acknowledge=False)) == expected
        await again.close()


async def test_a_subscription_that_is_not_durable_seeks_to_a_time(client: Client, topic: str) -> None:
    moment_ms = 1_700_000_000_000
    early = [(compose(metadata(), payload), 1) for payload in numbers(5)]
    await publish_entries(client, topic, *early)
    options = ConsumerOptions(
        subscription_name="reading", durable=False, start_message_id=MessageId.latest, create_topic=False
    )
    consumer = TopicConsumer(client, topic, options)
    await consumer.open()
    await consumer.seek(moment_ms)
    assert data(await take(consumer, 5, acknowledge=False)) == numbers(5)
    await consumer.close()


async def test_unsubscribing_deletes_the_subscription(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, numbers(3))
    await take(consumer, 1)
    await consumer.unsubscribe()
    assert consumer.state.value == "closed"
    again = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    assert data(await take(again, 3)) == numbers(3)


async def test_an_exclusive_subscription_takes_one_consumer(client: Client, topic: str) -> None:
    first = await client.subscribe(topic, "s")
    with pytest.raises(ConsumerBusy):
        await client.subscribe(topic, "s")
    await first.close()
    second = await client.subscribe(topic, "s")
    assert second.is_connected()
    with pytest.raises(ConsumerBusy):
        await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)


async def test_a_standby_failover_consumer_takes_over(tcp_client: Client, topic: str) -> None:
    told: list[tuple[str, str]] = []

    class Events:
        def became_active(self, consumer: TopicConsumer, partition: int) -> None:
            told.append((consumer.consumer_name(), "active"))

        def became_inactive(self, consumer: TopicConsumer, partition: int) -> None:
            told.append((consumer.consumer_name(), "inactive"))

    options: dict[str, Any] = {"consumer_type": ConsumerType.Failover, "consumer_event_listener": Events()}
    first = await tcp_client.subscribe(topic, "s", consumer_name="a", priority_level=0, **options)
    second = await tcp_client.subscribe(topic, "s", consumer_name="b", priority_level=1, **options)
    await until(lambda: ("a", "active") in told and ("b", "inactive") in told, "a consumer to become active")
    await publish(tcp_client, topic, numbers(10))
    await take(first, 4)
    assert len(second.queue) == 0
    await first.close()
    assert data(await take(second, 6)) == numbers(10)[4:]
    await until(lambda: ("b", "active") in told, "the second consumer to be told")


async def test_with_sticky_ranges_each_consumer_gets_the_keys_of_its_range(
    client: Client, topic: str
) -> None:
    def policy(first: int, last: int) -> ConsumerKeySharedPolicy:
        return ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=[(first, last)])

    kind = ConsumerType.KeyShared
    low = await client.subscribe(topic, "s", kind, key_shared_policy=policy(0, 32767))
    high = await client.subscribe(topic, "s", kind, key_shared_policy=policy(32768, 65535))
    keys = [f"key-{number}" for number in range(20)] * 3
    entries = [(single(key.encode(), partition_key=key), 1) for key in keys]
    await publish_entries(client, topic, *entries)
    await until(lambda: len(low.queue) + len(high.queue) == 60, "all of them")
    by_low, by_high = [
        {message.partition_key() for message in await take(consumer, len(consumer.queue))}
        for consumer in (low, high)
    ]
    assert not by_low & by_high
    assert len(by_low | by_high) == 20


async def test_a_terminated_topic_can_be_read_to_its_end(
    tcp_client: Client, topic: str, shared_vela: VelaProcess
) -> None:
    consumer = await tcp_client.subscribe(topic, "s")
    await publish(tcp_client, topic, numbers(3))
    await asyncio.to_thread(shared_vela.manage, "topic", "terminate", topic, "--yes")
    messages = await take(consumer, 3, acknowledge=False)
    assert not consumer.has_reached_end_of_topic()
    consumer.acknowledge(messages)
    await until(consumer.has_reached_end_of_topic, "the end of the topic")
