"""Consumers without a queue against a whole Vela (semantics S2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.acceptance.client.consumer.consuming import (
    all_acknowledged,
    becomes,
    data,
    link_of,
    numbers,
    publish,
    take,
)
from tests.support.waiting import until
from vela.aio.client import Client
from vela.errors import InvalidMessage, ReadError
from vela.options import (
    ConsumerType,
)


async def test_s2_4_consumers_without_a_queue_hold_one_message_each(client: Client, topic: str) -> None:
    options: dict[str, Any] = {"consumer_type": ConsumerType.Shared, "receiver_queue_size": 0}
    busy = await client.subscribe(topic, "s", **options)
    other = await client.subscribe(topic, "s", **options)
    holding = asyncio.create_task(busy.receive())
    await until(lambda: busy.available_permits == 1, "its permit")
    await publish(client, topic, numbers(10))
    held = await asyncio.wait_for(holding, 10)
    rest = await take(other, 9)
    assert sorted(data([held, *rest])) == numbers(10)
    assert busy.available_permits == 0
    busy.acknowledge(held)
    await becomes(lambda: all_acknowledged(other), "all of it acknowledged")


async def test_s0_27_a_batch_that_closed_one_consumer_goes_to_another(client: Client, topic: str) -> None:
    options: dict[str, Any] = {"consumer_type": ConsumerType.Shared}
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0, **options)
    receiving = asyncio.create_task(consumer.receive())
    await until(lambda: consumer.available_permits == 1, "its permit")
    await publish(client, topic, numbers(3), size=3)
    with pytest.raises(InvalidMessage):
        await asyncio.wait_for(receiving, 10)
    assert consumer.state.value == "closed"
    other = await client.subscribe(topic, "s", **options)
    assert data(await take(other, 3)) == numbers(3)


async def test_s2_15_negative_acks_without_a_queue(client: Client, topic: str) -> None:
    consumer = await client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        enable_zero_queue_consumer=True,
        negative_ack_redelivery_delay_ms=200,
    )
    await publish(client, topic, numbers(1))
    first = (await take(consumer, 1, acknowledge=False))[0]
    began = asyncio.get_running_loop().time()
    await consumer.negative_acknowledge(first)
    again = (await take(consumer, 1))[0]
    assert again.message_id() == first.message_id()
    assert asyncio.get_running_loop().time() - began >= 0.15


async def test_s2_16_without_a_queue_over_a_lost_link(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0)
    for number in range(3):
        receiving = asyncio.create_task(consumer.receive())
        await until(lambda: consumer.available_permits == 1, "a permit")
        link_of(consumer).abort(ReadError("cut by the test"))
        await publish(client, topic, [b"%d" % number])
        message = await asyncio.wait_for(receiving, 10)
        await consumer.acknowledge(message)
        assert message.data() == b"%d" % number
