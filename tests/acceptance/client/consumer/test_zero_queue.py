"""Consumers without a queue against a whole Vela."""

from __future__ import annotations

import asyncio
import re
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
from vela.aio.consumers.zero_queue import ZeroQueueConsumer
from vela.errors import AlreadyClosed, InvalidConfiguration, InvalidMessage, ReadError
from vela.message import Message, MessageId
from vela.options import ConsumerType


@pytest.mark.row("S2.2")
async def test_a_queue_of_0_works_for_one_topic_and_is_refused_for_several(
    client: Client, topic: str
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0)
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(_: Any, message: Message) -> None:
        heard.put_nowait(message.data())

    await client.subscribe(topic, "listening", receiver_queue_size=0, message_listener=listen)
    await publish(client, topic, numbers(3))
    assert data(await take(consumer, 3)) == numbers(3)
    async with asyncio.timeout(10):
        assert [await heard.get() for _ in range(3)] == numbers(3)
    reader = await client.create_reader(topic, MessageId.earliest, receiver_queue_size=0)
    assert [(await reader.read_next(10_000)).data() for _ in range(3)] == numbers(3)
    several: list[Any] = [[topic, f"{topic}-b"], re.compile(f"{topic}.*")]
    for topics in several:
        with pytest.raises(InvalidConfiguration, match="receiver_queue_size > 0"):
            await client.subscribe(topics, "s", receiver_queue_size=0)


@pytest.mark.row("S2.4")
async def test_consumers_without_a_queue_get_one_message_each(client: Client, topic: str) -> None:
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


@pytest.mark.row("S0.27")
async def test_a_batch_that_closed_one_consumer_goes_to_another(client: Client, topic: str) -> None:
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


@pytest.mark.row("S2.12")
async def test_closing_fails_the_receives_that_wait(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0)
    calls = [asyncio.create_task(consumer.receive()) for _ in range(2)]
    future = consumer.receive_async()
    await until(lambda: consumer.available_permits, "the permits of the waiting receives")
    await asyncio.wait_for(consumer.close(), 10)
    for waiting in (*calls, future):
        with pytest.raises(AlreadyClosed):
            await asyncio.wait_for(waiting, 10)
    with pytest.raises(AlreadyClosed):
        await consumer.receive()
    await publish(client, topic, numbers(1))
    again = await client.subscribe(topic, "s", receiver_queue_size=0)
    assert data(await take(again, 1)) == numbers(1)  # the closed consumer's permits were dropped with it


@pytest.mark.row("S2.14", "S2.17")
async def test_calls_that_need_a_queue_are_refused_and_lose_nothing(client: Client, topic: str) -> None:
    for name in ("retry_enable", "auto_scaled_receiver_queue_size_enabled"):
        options: dict[str, Any] = {name: True}
        with pytest.raises(InvalidConfiguration, match="queue"):
            await client.subscribe(topic, "s", receiver_queue_size=0, **options)
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0)
    assert isinstance(consumer, ZeroQueueConsumer)
    await publish(client, topic, numbers(1))
    with pytest.raises(InvalidConfiguration, match=r"no message in advance: call receive\(\)"):
        consumer.receive_nowait()
    with pytest.raises(InvalidConfiguration, match="time limit"):
        await consumer.receive(timeout_millis=10)
    with pytest.raises(InvalidConfiguration, match="in batches"):
        await consumer.batch_receive()
    assert consumer.available_permits == 0  # none of the calls granted a permit
    assert data(await take(consumer, 1)) == numbers(1)


@pytest.mark.row("S2.15")
async def test_a_negatively_acked_message_comes_back_without_a_queue(client: Client, topic: str) -> None:
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


@pytest.mark.row("S2.16")
async def test_without_a_queue_a_receive_continues_over_a_new_link(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=0)
    for number in range(3):
        receiving = asyncio.create_task(consumer.receive())
        await until(lambda: consumer.available_permits == 1, "a permit")
        link_of(consumer).abort(ReadError("cut by the test"))
        await publish(client, topic, [b"%d" % number])
        message = await asyncio.wait_for(receiving, 10)
        await consumer.acknowledge(message)
        assert message.data() == b"%d" % number
