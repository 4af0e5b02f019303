"""Messages in chunks against a whole Vela: each is redelivered as a whole, whatever the reason for the redelivery."""

from __future__ import annotations

import pytest

from tests.acceptance.client.acking.taking import nothing_comes, subscribed, take
from vela.aio.client import Client
from vela.options import ConsumerDeadLetterPolicy, ConsumerType

LARGE = bytes(range(256)) * 30_000  # 7.7 MB: two chunks


async def publish_large(client: Client, topic: str) -> None:
    async with await client.create_producer(topic, chunking_enabled=True, batching_enabled=False) as producer:
        await producer.send(LARGE)


@pytest.mark.parametrize("asked_by", ["timeout", "negative ack", "redelivery of everything"])
async def test_a_chunked_message_is_redelivered_whole(client: Client, topic: str, asked_by: str) -> None:
    consumer = await subscribed(
        client,
        topic,
        consumer_type=ConsumerType.Shared,
        unacked_messages_timeout_ms=1000 if asked_by == "timeout" else None,
        unacked_messages_tick_ms=100,
        negative_ack_redelivery_delay_ms=100,
    )
    await publish_large(client, topic)
    first = (await take(consumer, 1))[0]
    if asked_by == "negative ack":
        consumer.negative_acknowledge(first)
    elif asked_by != "timeout":
        consumer.redeliver_unacknowledged_messages()
    again = (await take(consumer, 1))[0]
    assert again.data() == first.data() == LARGE
    await consumer.acknowledge(again)
    await nothing_comes(consumer)


async def test_a_message_in_chunks_becomes_one_dead_letter(client: Client, topic: str) -> None:
    policy = ConsumerDeadLetterPolicy(1, initial_subscription_name="look")
    options = {"dead_letter_policy": policy, "negative_ack_redelivery_delay_ms": 100}
    consumer = await subscribed(client, topic, consumer_type=ConsumerType.Shared, **options)
    await publish_large(client, topic)
    for _ in range(2):
        consumer.negative_acknowledge((await take(consumer, 1))[0])
    letters = await client.subscribe(f"{topic}-s-DLQ", "look", consumer_type=ConsumerType.Shared)
    assert (await letters.receive(20_000)).data() == LARGE
    await consumer.close()
    again = await subscribed(client, topic, consumer_type=ConsumerType.Shared)
    await nothing_comes(again)
