"""Consuming from a whole Vela, over TCP and over WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pulsar
import pytest
import pytest_asyncio

from tests.support.vela import VelaProcess
from vela.aio.client import Client
from vela.aio.consumer import Consumer


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest_asyncio.fixture
async def client(service_url: str) -> AsyncIterator[Client]:
    made = Client(service_url, initial_backoff_ms=20)
    yield made
    await made.close()


async def publish(apache: pulsar.Client, topic: str, payloads: list[bytes], **options: Any) -> None:
    def send() -> None:
        producer = apache.create_producer(topic, **options)
        for payload in payloads:
            producer.send_async(payload, lambda result, message_id: None)
        producer.flush()
        producer.close()

    await asyncio.to_thread(send)


async def take(consumer: Consumer, count: int) -> list[bytes]:
    async with asyncio.timeout(20):
        found = []
        for _ in range(count):
            message = await consumer.receive()
            consumer.acknowledge(message)
            found.append(message.data())
        return found


async def test_s0_25_batches_and_single_messages_come_in_order(
    client: Client, apache: pulsar.Client, topic: str
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=20)
    sent = [b"%d" % number for number in range(250)]
    await publish(apache, topic, sent[:100], batching_enabled=True, batching_max_messages=10)
    await publish(apache, topic, sent[100:])
    await publish(
        apache, topic, sent[200:], compression_type=pulsar.CompressionType.LZ4, batching_enabled=True
    )
    assert await take(consumer, 300) == sent + sent[200:]
