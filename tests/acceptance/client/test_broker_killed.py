"""The broker is killed under producers and consumers of both transports, and all of them reconnect by themselves."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.client.consumer.consuming import becomes
from tests.support.broker_harness import rows
from tests.support.vela import VelaProcess
from vela.aio import Client
from vela.options import ConsumerType

MESSAGES = 300
KEYS = 20
ACKED = (
    "SELECT c.acked_messages FROM vela_cursor c JOIN vela_subscription s ON s.id = c.subscription_id"
    " JOIN vela_topic t ON t.id = s.topic_id WHERE t.name = %s"
)


@pytest.mark.row("S0.3")
async def test_a_killed_broker_is_found_again_and_nothing_receipted_is_lost(
    shared_vela: VelaProcess, topic: str
) -> None:
    first = asyncio.Event()
    killed = asyncio.Event()

    async def publish_and_consume(url: str) -> None:
        async with Client(url, initial_backoff_ms=20, max_backoff_ms=200) as client:
            name = f"{topic}-{url.partition(':')[0]}"
            consumer = await client.subscribe(name, "s", consumer_type=ConsumerType.Shared)
            producer = await client.create_producer(name, send_timeout_millis=0)
            receipts = [producer.send_async(b"%d" % number) for number in range(MESSAGES)]
            await receipts[0]
            first.set()
            await killed.wait()
            receipts += [producer.send_async(b"%d" % number) for number in range(MESSAGES, 2 * MESSAGES)]
            seen: set[bytes] = set()
            while len(seen) < 2 * MESSAGES:
                message = await consumer.receive()
                seen.add(message.data())
                await consumer.acknowledge(message)
            await asyncio.gather(*receipts)
            assert seen == {b"%d" % number for number in range(2 * MESSAGES)}

    async def kill() -> None:
        await first.wait()
        await asyncio.to_thread(shared_vela.kill, "broker")
        killed.set()

    async with asyncio.timeout(60):
        await asyncio.gather(
            publish_and_consume(shared_vela.pulsar_url),
            publish_and_consume(shared_vela.websocket_url),
            kill(),
        )


async def test_after_a_kill_key_shared_redelivers_only_entries_without_a_stored_ack(
    shared_vela: VelaProcess, topic: str
) -> None:
    async with (
        asyncio.timeout(60),
        Client(shared_vela.pulsar_url, initial_backoff_ms=20, max_backoff_ms=200) as client,
    ):
        consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.KeyShared)
        producer = await client.create_producer(topic, batching_enabled=False)

        async def publish(first: int, count: int) -> None:
            numbers = range(first, first + count)
            await asyncio.gather(
                *(producer.send_async(b"%d" % each, partition_key=f"key-{each % KEYS}") for each in numbers)
            )

        async def receive(count: int) -> list[int]:
            received = []
            for _ in range(count):
                message = await consumer.receive()
                received.append(int(message.data()))
                if received[-1] % 2:
                    await consumer.acknowledge(message)
            return received

        await publish(0, MESSAGES)
        await receive(MESSAGES)
        await becomes(
            lambda: asyncio.to_thread(half_is_stored, shared_vela.database_url, topic), "stored acks"
        )
        await asyncio.to_thread(shared_vela.kill, "broker")
        again = await receive(MESSAGES // 2)
        assert sorted(again) == list(range(0, MESSAGES, 2))
        await publish(MESSAGES, KEYS)  # each key's redelivered messages would come before these
        assert sorted(await receive(KEYS)) == list(range(MESSAGES, MESSAGES + KEYS))


def half_is_stored(database_url: str, topic: str) -> bool:
    return rows(database_url, ACKED, topic) == [(MESSAGES // 2,)]
