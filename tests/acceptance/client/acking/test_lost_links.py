"""Lost connections lose no ack and no message. The tests use a whole Vela."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.client.acking.taking import NUMBERS, nothing_comes, publish, subscribed, take, texts
from vela import errors
from vela.aio.client import Client
from vela.options import ConsumerType

SHARED = ConsumerType.Shared


@pytest.mark.row("S4.14", "S4.15")
async def test_acks_survive_a_lost_connection(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_group_time_ms=3_600_000)
    messages = await take(consumer, 10)
    for message in messages[:5]:
        consumer.acknowledge(message)
    connection = consumer.link.connection
    assert connection is not None
    connection.abort(errors.ReadError("as if the link was lost"))
    for message in messages[5:8]:
        consumer.acknowledge(message)
    assert texts(await take(consumer, 2)) == ["8", "9"]
    await nothing_comes(consumer)


@pytest.mark.row("S4.14", "I22")
@pytest.mark.parametrize("batch_index_ack", [True, False])
async def test_links_lost_every_50_ms_lose_no_ack_and_no_message(
    client: Client, topic: str, batch_index_ack: bool
) -> None:
    count = 600
    await publish(client, topic, [b"%d" % number for number in range(count)], batch=10)
    consumer = await subscribed(
        client,
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
            if (connection := consumer.link.connection) is not None:
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
    again = await subscribed(client, topic, consumer_type=SHARED)
    await nothing_comes(again)
