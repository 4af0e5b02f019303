"""What is neither acked nor refused comes again after the ack timeout: against a whole Vela (S4.21 … S4.30)."""

from __future__ import annotations

import asyncio

from tests.acceptance.client.acking.taking import NUMBERS, nothing_comes, publish, subscribed, take, texts
from tests.support.waiting import until
from vela.aio.client import Client
from vela.options import ConsumerType

SHARED = ConsumerType.Shared


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
