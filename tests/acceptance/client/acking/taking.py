"""Steps that these tests share: publish, subscribe, receive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vela import errors
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.message import Message
from vela.options import ConsumerType, InitialPosition

__all__ = [
    "NUMBERS",
    "nothing_comes",
    "publish",
    "shared_with_one",
    "subscribed",
    "take",
    "texts",
]

QUIET_MS = 300  # how long to wait before concluding that no message comes
NUMBERS = [b"%d" % number for number in range(10)]


async def publish(client: Client, topic: str, payloads: list[bytes], *, batch: int = 0) -> None:
    """Publish each message alone, or in batches of this size."""
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
    """Return a consumer of the subscription "s", which begins at the earliest message."""
    options.setdefault("initial_position", InitialPosition.Earliest)
    consumer = await client.subscribe(topic, "s", **options)
    assert isinstance(consumer, TopicConsumer)
    return consumer


async def shared_with_one(client: Client, topic: str, **options: Any) -> TopicConsumer:
    """Publish one message, the first of NUMBERS, and return a Shared consumer that will get it."""
    await publish(client, topic, NUMBERS[:1])
    return await subscribed(client, topic, consumer_type=ConsumerType.Shared, **options)


async def take(consumer: TopicConsumer, count: int) -> list[Message]:
    """Receive the next messages, and ack none of them."""
    async with asyncio.timeout(20):
        return [await consumer.receive() for _ in range(count)]


async def nothing_comes(consumer: TopicConsumer) -> None:
    """Fail if a message arrives within QUIET_MS."""
    with pytest.raises(errors.Timeout):
        await consumer.receive(QUIET_MS)


def texts(messages: list[Message]) -> list[str]:
    """Return the messages' payloads as texts."""
    return [message.data().decode() for message in messages]
