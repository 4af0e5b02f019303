"""Steps that these tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pulsar

from tests.acceptance.client.publishing import publish_entries
from tests.support.broker_harness import rows
from tests.support.vela import VelaProcess
from tests.unit.client.entries import batch, single
from vela.aio.client import Client
from vela.aio.connections.connection import Connection
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.flow.receive_window import ReceiveWindow
from vela.message import Message

__all__ = [
    "QUIET_MS",
    "all_acknowledged",
    "becomes",
    "broker_has_permits",
    "data",
    "link_of",
    "numbers",
    "publish",
    "publish_with_apache",
    "take",
    "witnessed",
]

QUIET_MS = 300  # if a message was sent, it arrives sooner than this


async def publish_with_apache(
    apache: pulsar.Client, topic: str, payloads: Sequence[bytes], **options: Any
) -> None:
    def send() -> None:
        producer = apache.create_producer(topic, **options)
        for payload in payloads:
            producer.send_async(payload, lambda result, message_id: None)
        producer.flush()
        producer.close()

    await asyncio.to_thread(send)


async def publish(client: Client, topic: str, payloads: Sequence[bytes], *, size: int = 0) -> None:
    """Publish the payloads one by one, or in batches of `size`."""
    if size:
        parts = [list(payloads[start : start + size]) for start in range(0, len(payloads), size)]
        await publish_entries(client, topic, *((batch(part), len(part)) for part in parts))
    else:
        await publish_entries(client, topic, *((single(payload), 1) for payload in payloads))


async def take(consumer: Consumer, count: int, *, acknowledge: bool = True) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            message = await consumer.receive()
            if acknowledge:
                consumer.acknowledge(message)
            found.append(message)
    return found


def data(messages: Sequence[Message]) -> list[bytes]:
    return [message.data() for message in messages]


async def broker_has_permits(vela: VelaProcess, consumer: Consumer, size: int) -> None:
    """Wait until the broker's permits and those that the consumer still owes add up to the queue's size."""

    def found() -> list[tuple[Any, ...]]:
        return rows(
            vela.database_url,
            "SELECT permits, unacked_messages FROM vela_consumer_session WHERE name = %s",
            consumer.consumer_name(),
        )

    assert isinstance(consumer, TopicConsumer)
    window = consumer.flow.permits
    assert isinstance(window, ReceiveWindow)

    async def settled() -> bool:
        return await asyncio.to_thread(found) == [(size - window.owed, 0)]

    await becomes(settled, f"{size} permits")


async def all_acknowledged(consumer: Consumer) -> bool:
    assert isinstance(consumer, TopicConsumer)
    found = await consumer.last_message()
    return found.mark_delete is not None and (found.mark_delete.ledger_id, found.mark_delete.entry_id) >= (
        found.last.ledger_id,
        found.last.entry_id,
    )


async def becomes(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until a coroutine function returns True."""
    for _ in range(500):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


async def witnessed(client: Client, topic: str, payloads: Sequence[bytes]) -> None:
    """Publish, and wait until a witness has all messages. By then, they could have reached other consumers too."""
    witness = await client.subscribe(topic, "witness")
    await publish(client, topic, payloads)
    assert data(await take(witness, len(payloads))) == list(payloads)
    await witness.close()


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def link_of(consumer: Consumer) -> Connection:
    """The connection of a consumer of one topic."""
    assert isinstance(consumer, TopicConsumer)
    link = consumer.link.connection
    assert link is not None
    return link
