"""Consumers without a queue against a whole Vela: when they grant permits, and how many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.acceptance.client.consumer.consuming import data, numbers, publish, take
from tests.acceptance.client.sent_frames import PermitAccount, fence
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer


async def subscribed(client: Client, topic: str, **options: Any) -> TopicConsumer:
    """Subscribe without a queue, unless the options set another size."""
    consumer = await client.subscribe(topic, "s", **{"receiver_queue_size": 0, **options})
    assert isinstance(consumer, TopicConsumer)
    return consumer


@pytest.mark.row("S0.50", "S2.5", "S2.7")
async def test_each_receive_grants_one_permit_in_one_flow(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await subscribed(relayed, topic)
    await publish(relayed, topic, numbers(5))
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([], 0)  # no receive was called
    for number in range(5):
        assert data(await take(consumer, 1)) == [b"%d" % number]
        await fence(consumer)
        assert (permits.flows, permits.messages) == ([1] * (number + 1), number + 1)


@pytest.mark.row("S2.9")
@pytest.mark.parametrize("enabled", [True, False])
async def test_the_option_enable_zero_queue_consumer_overrides_the_queue_size(
    relayed: Client, permits: PermitAccount, topic: str, enabled: bool
) -> None:
    switch = {"enable_zero_queue_consumer": True} if enabled else {}  # off by default
    consumer = await subscribed(relayed, topic, receiver_queue_size=500, **switch)
    await fence(consumer)
    assert permits.flows == ([] if enabled else [500])
    await publish(relayed, topic, numbers(1))
    assert data(await take(consumer, 1)) == numbers(1)


@pytest.mark.row("S2.6")
async def test_each_asynchronous_receive_that_has_to_wait_grants_one_permit(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await subscribed(relayed, topic)
    futures = [consumer.receive_async() for _ in range(4)]
    await fence(consumer)
    assert sum(permits.flows) == 4
    futures.pop().cancel()  # the broker nevertheless sends the message for this receive
    await publish(relayed, topic, numbers(4))
    async with asyncio.timeout(10):
        assert data([await future for future in futures]) == numbers(3)
    await until(lambda: len(consumer.queue) == 1, "the fourth")
    assert consumer.receive_async().result().data() == b"3"
    await fence(consumer)
    assert (sum(permits.flows), permits.outstanding) == (4, 0)


@pytest.mark.row("S2.8")
async def test_while_paused_nothing_is_granted(relayed: Client, permits: PermitAccount, topic: str) -> None:
    consumer = await subscribed(relayed, topic, start_paused=True)
    await publish(relayed, topic, numbers(3))
    futures = [consumer.receive_async() for _ in range(2)]
    await fence(consumer)
    assert permits.flows == []
    consumer.resume()
    async with asyncio.timeout(10):
        assert data([await future for future in futures]) == numbers(2)
    assert permits.flows == [2]
    consumer.pause()
    future = consumer.receive_async()
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([2], 2)
    consumer.resume()
    assert (await asyncio.wait_for(future, 10)).data() == b"2"
    assert permits.flows == [2, 1]


@pytest.mark.row("S2.11")
async def test_concurrent_receives_take_turns(relayed: Client, permits: PermitAccount, topic: str) -> None:
    consumer = await subscribed(relayed, topic)
    calls = [asyncio.create_task(consumer.receive()) for _ in range(3)]
    for number, call in enumerate(calls):
        await until(lambda: permits.outstanding == 1, "the permit of the next receive")
        await fence(consumer)
        assert (permits.flows, permits.messages) == ([1] * (number + 1), number)
        await publish(relayed, topic, [b"%d" % number])
        assert (await asyncio.wait_for(call, 10)).data() == b"%d" % number
    assert permits.most_outstanding == 1


@pytest.mark.row("S2.13")
async def test_a_permit_left_over_is_used_by_the_next_receive(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await subscribed(relayed, topic)
    for _ in range(2):
        given_up = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        await fence(consumer)
        given_up.cancel()
        await asyncio.wait([given_up])
    assert (permits.flows, permits.messages) == ([1], 0)
    await publish(relayed, topic, numbers(2))
    await until(lambda: len(consumer.queue) == 1, "the message for which no receive waits")
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([1], 1)  # the other message stays at the broker
    assert data(await take(consumer, 1)) == [b"0"]
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([1], 1)
    assert data(await take(consumer, 1)) == [b"1"]
    assert (permits.flows, permits.messages) == ([1, 1], 2)


@pytest.mark.row("S2.18")
async def test_the_permit_is_granted_when_the_receive_begins(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await subscribed(relayed, topic)
    receiving = asyncio.create_task(consumer.receive())
    await until(lambda: permits.outstanding == 1, "the permit, before there is a message")
    await publish(relayed, topic, numbers(2))
    message = await asyncio.wait_for(receiving, 10)
    await consumer.acknowledge(message)  # this grants no permit
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([1], 1)
    receiving = asyncio.create_task(consumer.receive())
    assert (await asyncio.wait_for(receiving, 10)).data() == b"1"
    assert permits.flows == [1, 1]
