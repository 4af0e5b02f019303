"""The broker is killed under producers and consumers of both transports: all come again by themselves."""

from __future__ import annotations

import asyncio

from tests.support.vela import VelaProcess
from vela.aio import Client
from vela.options import ConsumerType

MESSAGES = 300


async def test_s0_3_a_killed_broker_is_found_again_and_nothing_receipted_is_lost(
    vela: VelaProcess, topic: str
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
        await asyncio.to_thread(vela.kill, "broker")
        killed.set()

    async with asyncio.timeout(60):
        await asyncio.gather(
            publish_and_consume(vela.pulsar_url), publish_and_consume(vela.websocket_url), kill()
        )
