"""What is acked stays acked, and what is not comes again: against a whole Vela, over TCP and over WebSocket (S4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.vela import VelaProcess
from tests.support.waiting import until
from vela import errors
from vela.aio.client import Client
from vela.aio.topic_consumer import TopicConsumer
from vela.message import Message
from vela.options import ConsumerType, InitialPosition

SHARED = ConsumerType.Shared
QUIET_MS = 300  # in which nothing comes, where nothing may


@pytest_asyncio.fixture
async def client(service_url: str) -> AsyncIterator[Client]:
    made = Client(service_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def tcp_client(shared_vela: VelaProcess) -> AsyncIterator[Client]:
    """For what takes seconds and does not depend on the transport."""
    made = Client(shared_vela.pulsar_url, initial_backoff_ms=20)
    yield made
    await made.close()


async def publish(client: Client, topic: str, payloads: list[bytes], *, batch: int = 0) -> None:
    """Each alone, or in batches of so many."""
    options: dict[str, Any] = {}
    if batch:
        options = {
            "batching_enabled": True,
            "batching_max_messages": batch,
            "batching_max_publish_delay_ms": 1000,
        }
    async with await client.create_producer(topic, max_pending_messages=0, **options) as producer:
        for payload in payloads:
            producer.send_async(payload)


async def subscribed(client: Client, topic: str, **options: Any) -> TopicConsumer:
    options.setdefault("initial_position", InitialPosition.Earliest)
    consumer = await client.subscribe(topic, "s", **options)
    assert isinstance(consumer, TopicConsumer)
    return consumer


async def take(consumer: TopicConsumer, count: int) -> list[Message]:
    async with asyncio.timeout(20):
        return [await consumer.receive() for _ in range(count)]


async def nothing_comes(consumer: TopicConsumer) -> None:
    with pytest.raises(errors.Timeout):
        await consumer.receive(QUIET_MS)


def texts(messages: list[Message]) -> list[str]:
    return [message.data().decode() for message in messages]


NUMBERS = [b"%d" % number for number in range(10)]


async def test_s4_4_a_single_ack_takes_one_message(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:5])
    consumer = await subscribed(client, topic)
    messages = await take(consumer, 5)
    consumer.acknowledge(messages[2])
    await consumer.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 4)) == ["0", "1", "3", "4"]
    await nothing_comes(again)


async def test_s4_5_a_cumulative_ack_takes_all_up_to_it(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_receipt_enabled=True)
    messages = await take(consumer, 10)
    await consumer.acknowledge_cumulative(messages[6])
    await consumer.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 3)) == ["7", "8", "9"]


@pytest.mark.parametrize("batch_index_ack", [True, False])
@pytest.mark.parametrize("cumulative", [True, False])
async def test_s4_6_s4_7_part_of_a_batch(
    client: Client, topic: str, batch_index_ack: bool, cumulative: bool
) -> None:
    await publish(client, topic, [b"before"])
    await publish(client, topic, NUMBERS, batch=10)
    options = {"batch_index_ack_enabled": batch_index_ack, "ack_receipt_enabled": True}
    consumer = await subscribed(client, topic, **options)
    messages = await take(consumer, 11)
    if cumulative:
        await consumer.acknowledge_cumulative(messages[3])
    else:
        await consumer.acknowledge(messages[:4])
    await consumer.close()
    again = await subscribed(client, topic, **options)
    expected = [str(number) for number in range(3 if batch_index_ack else 0, 10)]
    messages = await take(again, len(expected))
    assert texts(messages) == expected
    await again.acknowledge(messages)
    await again.close()
    last = await subscribed(client, topic)
    await nothing_comes(last)


async def test_s4_10_s4_12_receipts_one_by_one(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_group_time_ms=0, ack_receipt_enabled=True)
    async with asyncio.timeout(20):
        for message in await take(consumer, 10):
            await consumer.acknowledge(message)
        last = await consumer.last_message()
    assert last.mark_delete is not None
    assert (last.mark_delete.ledger_id, last.mark_delete.entry_id) == (
        last.last.ledger_id,
        last.last.entry_id,
    )


async def test_s4_13_acks_that_were_not_sent_are_lost_with_their_client(
    client: Client, topic: str, service_url: str
) -> None:
    await publish(client, topic, NUMBERS[:3])
    dying = Client(service_url)
    consumer = await subscribed(dying, topic, ack_group_time_ms=3_600_000)
    for message in await take(consumer, 3):
        consumer.acknowledge(message)
    connection = consumer.connection()
    assert connection is not None
    consumer.acks.flush = lambda properties=None: None  # type: ignore[method-assign]  # as if it was killed
    await dying.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 3)) == ["0", "1", "2"]


async def test_s4_14_s4_15_acks_survive_a_lost_connection(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_group_time_ms=3_600_000)
    messages = await take(consumer, 10)
    for message in messages[:5]:
        consumer.acknowledge(message)
    connection = consumer.connection()
    assert connection is not None
    connection.abort(errors.ReadError("as if the link was lost"))
    for message in messages[5:8]:
        consumer.acknowledge(message)
    assert texts(await take(consumer, 2)) == ["8", "9"]
    await nothing_comes(consumer)


async def test_s4_16_s4_20_a_negative_ack_brings_its_message_again(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:3], batch=3)
    consumer = await subscribed(
        client,
        topic,
        consumer_type=SHARED,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
    )
    first, refused, last = await take(consumer, 3)
    consumer.acknowledge([first, last])
    consumer.negative_acknowledge(refused)
    (again,) = await take(consumer, 1)
    assert (again.data(), again.redelivery_count(), again.message_id()) == (b"1", 1, refused.message_id())
    consumer.acknowledge(again)
    await nothing_comes(consumer)


async def test_s4_17_many_negative_acks_come_again_together(client: Client, topic: str) -> None:
    await publish(client, topic, [b"%d" % number for number in range(1500)])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, negative_ack_redelivery_delay_ms=100, receiver_queue_size=2000
    )
    for message in await take(consumer, 1500):
        consumer.negative_acknowledge(message)
    again = await take(consumer, 1500)
    assert {message.redelivery_count() for message in again} == {1}
    assert sorted(map(int, texts(again))) == list(range(1500))


async def test_s4_18_s4_29_what_a_consumer_held_comes_to_the_next_at_once(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:2])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, negative_ack_redelivery_delay_ms=3_600_000
    )
    refused, _ = await take(consumer, 2)
    consumer.negative_acknowledge(refused)
    await nothing_comes(consumer)
    await consumer.close()
    again = await subscribed(client, topic, consumer_type=SHARED)
    assert texts(await take(again, 2)) == ["0", "1"]


async def test_s4_1_s4_2_s4_21_s4_22_an_ack_timeout_brings_back_what_was_forgotten(
    client: Client, topic: str
) -> None:
    await publish(client, topic, NUMBERS[:3])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=100
    )
    loop = asyncio.get_running_loop()
    acked, forgotten, refused = await take(consumer, 3)
    began = loop.time()
    consumer.acknowledge(acked)
    consumer.negative_acknowledge(refused)  # comes in a minute, not with the timeout
    (again,) = await take(consumer, 1)
    assert loop.time() - began >= 1.0
    assert (again.data(), again.redelivery_count()) == (forgotten.data(), 1)


async def test_s4_24_on_exclusive_a_negative_ack_brings_everything_in_order(
    client: Client, topic: str
) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, negative_ack_redelivery_delay_ms=100, receiver_queue_size=20)
    messages = await take(consumer, 10)
    await consumer.acknowledge(messages[3])
    consumer.negative_acknowledge(messages[5])
    assert texts(await take(consumer, 9)) == [str(number) for number in range(10) if number != 3]
    consumer.redeliver_unacknowledged_messages()
    assert texts(await take(consumer, 1)) == ["0"]


async def test_s4_25_s4_26_what_waits_in_a_queue_is_kept_from_others_until_it_goes(
    client: Client, topic: str
) -> None:
    hoarder = await subscribed(client, topic, consumer_type=SHARED, unacked_messages_timeout_ms=1000)
    await publish(client, topic, NUMBERS)
    await until(lambda: len(hoarder.queue) == 10, "the queue of the hoarder")
    idle = await subscribed(client, topic, consumer_type=SHARED)
    await nothing_comes(idle)
    await hoarder.close()
    assert sorted(texts(await take(idle, 10))) == [str(number) for number in range(10)]


async def test_s4_8_on_a_non_persistent_topic_acks_are_harmless(client: Client, topic: str) -> None:
    name = topic.replace("persistent://", "non-persistent://")
    consumer = await subscribed(client, name, consumer_type=SHARED, ack_receipt_enabled=True)
    await publish(client, name, [b"x"])
    (message,) = await take(consumer, 1)
    async with asyncio.timeout(20):
        await consumer.acknowledge(message)


@pytest.mark.parametrize("batch_index_ack", [True, False])
async def test_s4_14_i22_links_lost_every_50_ms_lose_no_ack_and_no_message(
    tcp_client: Client, topic: str, batch_index_ack: bool
) -> None:
    count = 600
    await publish(tcp_client, topic, [b"%d" % number for number in range(count)], batch=10)
    consumer = await subscribed(
        tcp_client,
        topic,
        consumer_type=SHARED,
        receiver_queue_size=100,
        negative_ack_redelivery_delay_ms=100,
        unacked_messages_timeout_ms=1000,
        unacked_messages_tick_ms=100,
        batch_index_ack_enabled=batch_index_ack,
        ack_group_time_ms=20,
    )
    acked: set[bytes] = set()

    async def lose_links() -> None:
        for _ in range(20):
            await asyncio.sleep(0.05)
            if (connection := consumer.connection()) is not None:
                connection.abort(errors.ReadError("as if the link was lost"))

    async def work() -> None:
        for turn in range(1 << 30):
            message = await consumer.receive(1500)
            if turn % 17 == 5:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
                acked.add(message.data())
            if turn % 10 == 0:
                await asyncio.sleep(0.002)

    losing = asyncio.create_task(lose_links())
    with pytest.raises(errors.Timeout):  # nothing comes any more
        await asyncio.wait_for(work(), 30)
    await losing
    assert len(acked) == count
    await consumer.close()
    again = await subscribed(tcp_client, topic, consumer_type=SHARED)
    await nothing_comes(again)
