"""Dead letters and retry letters that the client writes. The tests use a whole Vela, over TCP and over WebSocket."""

from __future__ import annotations

import asyncio
import queue
from datetime import timedelta
from typing import Any

import pytest

import vela
from vela import errors
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.message import Message
from vela.options import ConsumerDeadLetterPolicy, ConsumerType, InitialPosition

SHARED = ConsumerType.Shared
QUIET_MS = 300  # how long to wait before concluding that no message comes


async def subscribed(client: Client, topic: str, **options: Any) -> Consumer:
    options = {"consumer_type": SHARED, "initial_position": InitialPosition.Earliest} | options
    return await client.subscribe(topic, "s", **options)


async def publish(client: Client, topic: str, payload: bytes, **fields: Any) -> None:
    async with await client.create_producer(topic) as producer:
        await producer.send(payload, **fields)


async def with_a_batch(client: Client, topic: str, messages: int, *, batch_index_acks: bool) -> Consumer:
    """Return a consumer that gives up after one redelivery, and publish a batch to it: b"0", b"1" …"""
    consumer = await subscribed(
        client,
        topic,
        dead_letter_policy=ConsumerDeadLetterPolicy(1, initial_subscription_name="look"),
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=batch_index_acks,
    )
    async with await client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1000
    ) as producer:
        for number in range(messages):
            producer.send_async(b"%d" % number)
    return consumer


async def take(consumer: Consumer) -> Message:
    return await consumer.receive(20_000)


async def nothing_comes(consumer: Consumer) -> None:
    with pytest.raises(errors.Timeout):
        await consumer.receive(QUIET_MS)


@pytest.mark.row("I16", "S4.31")
async def test_a_message_that_always_fails_is_found_on_the_dead_letter_topic(
    client: Client, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(2, initial_subscription_name="look")
    consumer = await subscribed(
        client,
        topic,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=100,
    )
    producer = await client.create_producer(topic)
    await producer.send(b"bad", properties={"a": "b"}, partition_key="k", event_timestamp=77)
    await producer.send(b"good")
    seen = []
    for _ in range(4):
        message = await take(consumer)
        seen.append((message.data(), message.redelivery_count()))
        if message.data() == b"bad":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert sorted(seen) == [(b"bad", 0), (b"bad", 1), (b"bad", 2), (b"good", 0)]
    letters = await client.subscribe(f"{topic}-s-DLQ", "look", consumer_type=SHARED)
    letter = await take(letters)
    assert (letter.data(), letter.partition_key(), letter.event_timestamp()) == (b"bad", "k", 77)
    properties = letter.properties()
    assert (properties["a"], properties["REAL_TOPIC"]) == ("b", topic)
    assert properties["REAL_SUBSCRIPTION"] == "s"
    await consumer.close()
    again = await subscribed(client, topic)
    await nothing_comes(again)


async def test_a_message_put_off_comes_back_to_its_consumer_after_the_delay(
    client: Client, topic: str
) -> None:
    consumer = await subscribed(client, topic, retry_enable=True, unacked_messages_timeout_ms=10_000)
    await publish(client, topic, b"busy", partition_key="k", properties={"a": "b"})
    loop = asyncio.get_running_loop()
    put_off_at = loop.time() - 1
    counts, topics = [], []
    for _ in range(3):
        message = await take(consumer)
        counts.append(message.properties().get("RECONSUMETIMES", "0"))
        topics.append(message.topic_name())
        assert (message.data(), message.partition_key(), message.properties()["a"]) == (b"busy", "k", "b")
        assert loop.time() - put_off_at >= 0.3
        put_off_at = loop.time()
        if len(counts) < 3:
            await consumer.reconsume_later(message, timedelta(milliseconds=300))
    await consumer.acknowledge(message)
    assert counts == ["0", "1", "2"]
    assert topics == [topic, f"{topic}-s-RETRY", f"{topic}-s-RETRY"]
    assert message.properties()["REAL_TOPIC"] == topic
    await consumer.close()
    again = await subscribed(client, topic, retry_enable=True)
    await nothing_comes(again)


@pytest.mark.row("I16")
async def test_a_message_put_off_too_often_becomes_a_dead_letter(client: Client, topic: str) -> None:
    policy = ConsumerDeadLetterPolicy(2, f"{topic}-morgue", "look", retry_letter_topic=f"{topic}-later")
    consumer = await subscribed(
        client,
        topic,
        retry_enable=True,
        dead_letter_policy=policy,
        ack_receipt_enabled=True,
        unacked_messages_timeout_ms=10_000,
    )
    await publish(client, topic, b"bad")
    topics = []
    for _ in range(3):
        message = await take(consumer)
        topics.append(message.topic_name())
        await consumer.reconsume_later(message, 0)
    assert topics == [topic, f"{topic}-later", f"{topic}-later"]
    letters = await client.subscribe(f"{topic}-morgue", "look", consumer_type=SHARED)
    letter = await take(letters)
    assert (letter.data(), letter.properties()["RECONSUMETIMES"]) == (b"bad", "3")
    await nothing_comes(consumer)


@pytest.mark.row("S4.32")
@pytest.mark.parametrize("is_chosen", [True, False])
async def test_a_timed_out_message_is_put_off_if_the_option_says_so(
    client: Client, topic: str, is_chosen: bool
) -> None:
    consumer = await subscribed(
        client,
        topic,
        retry_enable=True,
        retry_on_ack_timeout=is_chosen,
        unacked_messages_timeout_ms=1000,
        unacked_messages_tick_ms=100,
    )
    await publish(client, topic, b"slow")
    await take(consumer)
    again = await take(consumer)
    consumer.acknowledge(again)
    assert again.topic_name() == (f"{topic}-s-RETRY" if is_chosen else topic)
    assert again.redelivery_count() == (0 if is_chosen else 1)
    await consumer.close()
    last = await subscribed(client, topic)
    await nothing_comes(last)


@pytest.mark.row("I16")
async def test_the_members_of_a_batch_that_failed_are_letters_one_by_one(client: Client, topic: str) -> None:
    consumer = await with_a_batch(client, topic, 6, batch_index_acks=True)
    taken = 0
    while taken < 6 + 3:
        message = await take(consumer)
        taken += 1
        if int(message.data()) % 2:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    letters = await client.subscribe(f"{topic}-s-DLQ", "look", consumer_type=SHARED)
    assert sorted([(await take(letters)).data() for _ in range(3)]) == [b"1", b"3", b"5"]
    await nothing_comes(letters)
    await nothing_comes(consumer)


@pytest.mark.row("I16")
@pytest.mark.parametrize("batch_index_acks", [True, False])
async def test_waiting_messages_of_a_batch_at_the_limit_are_shown_before_they_become_letters(
    client: Client, topic: str, batch_index_acks: bool
) -> None:
    consumer = await with_a_batch(client, topic, 4, batch_index_acks=batch_index_acks)
    first = [await take(consumer) for _ in range(4)]
    consumer.negative_acknowledge(first[0])
    consumer.negative_acknowledge(await take(consumer))
    letters = await client.subscribe(f"{topic}-s-DLQ", "look", consumer_type=SHARED)
    assert (await take(letters)).data() == b"0"
    rest = [await take(consumer) for _ in range(3)]
    assert [(each.data(), each.redelivery_count()) for each in rest] == [(b"1", 1), (b"2", 1), (b"3", 1)]
    consumer.acknowledge(rest[0])
    consumer.negative_acknowledge(rest[1])
    consumer.acknowledge(rest[2])
    assert (await take(letters)).data() == b"2"
    await nothing_comes(letters)
    await nothing_comes(consumer)
    await consumer.close()
    again = await subscribed(client, topic)
    await nothing_comes(again)


@pytest.mark.row("I16")
def test_messages_that_vela_client_took_ahead_are_shown_before_they_become_letters(
    service_url: str, topic: str
) -> None:
    client = vela.Client(service_url)
    policy = ConsumerDeadLetterPolicy(1, initial_subscription_name="look")
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=SHARED,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=100,
    )
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for number in range(4):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    first = [consumer.receive(20_000) for _ in range(4)]
    consumer.negative_acknowledge(first[0])
    for _ in range(2):  # the first message again, and the second one, which was prefetched with it
        consumer.negative_acknowledge(consumer.receive(20_000))
    letters = client.subscribe(f"{topic}-s-DLQ", "look", consumer_type=SHARED)
    assert sorted(letters.receive(20_000).data() for _ in range(2)) == [b"0", b"1"]
    for number in (2, 3):
        message = consumer.receive(20_000)
        assert (message.data(), message.redelivery_count()) == (b"%d" % number, 1)
        consumer.acknowledge(message)
    with pytest.raises(errors.Timeout):
        letters.receive(QUIET_MS)
    client.close()


def test_the_client_for_threads_puts_messages_off_too(service_url: str, topic: str) -> None:
    client = vela.Client(service_url)
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=SHARED,
        retry_enable=True,
        unacked_messages_timeout_ms=10_000,
    )
    client.create_producer(topic).send(b"busy")
    consumer.reconsume_later(consumer.receive(20_000), 100, {"why": "busy"})
    again = consumer.receive(20_000)
    assert (again.data(), again.properties()["RECONSUMETIMES"], again.properties()["why"]) == (
        b"busy",
        "1",
        "busy",
    )
    listened: queue.Queue[tuple[str, str]] = queue.Queue()
    consumer.close()

    def listen(view: vela.Consumer, message: Message) -> None:
        listened.put((message.topic_name(), message.properties()["RECONSUMETIMES"]))
        if message.properties()["RECONSUMETIMES"] == "1":
            view.reconsume_later(message, timedelta(milliseconds=1))
        else:
            view.acknowledge(message)

    client.subscribe(
        topic,
        "s",
        consumer_type=SHARED,
        retry_enable=True,
        unacked_messages_timeout_ms=10_000,
        message_listener=listen,
    )
    retries = f"{topic}-s-RETRY"
    assert [listened.get(timeout=20) for _ in range(2)] == [(retries, "1"), (retries, "2")]
    client.close()
