"""Permits between a client and a whole Vela, as the frames between them show."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.client.consumer.consuming import (
    data,
    numbers,
    publish,
    take,
    witnessed,
)
from tests.acceptance.client.sent_frames import PermitAccount, fence
from tests.support.frame_relay import Frame, FrameRelay
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.wire.binary.fields import parse_command
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand


@pytest.mark.row("S0.36")
@pytest.mark.parametrize("size", [1, 10])
async def test_the_queue_takes_as_many_messages_as_its_size(client: Client, topic: str, size: int) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=size)
    await witnessed(client, topic, numbers(30))
    await until(lambda: len(consumer.queue) == size, "a full queue")
    assert (consumer.available_permits, consumer.statistics().messages_delivered) == (0, size)
    assert data(await take(consumer, 30)) == numbers(30)


@pytest.mark.row("S0.36")
async def test_a_growing_queue_begins_at_one_and_doubles_up_to_its_size(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await relayed.subscribe(
        topic, "s", receiver_queue_size=8, auto_scaled_receiver_queue_size_enabled=True
    )
    sizes = []
    for _ in range(5):
        await fence(consumer)
        sizes.append(permits.outstanding)
        await publish(relayed, topic, numbers(sizes[-1]))
        await until(lambda: len(consumer.queue) == sizes[-1], "a full queue")
        await take(consumer, sizes[-1])
        consumer.receive_async().cancel()  # this call finds the queue empty
    assert sizes == [1, 2, 4, 8, 8]


@pytest.mark.row("S0.41")
async def test_permits_are_lost_with_their_connection_and_granted_anew(
    client: Client, relayed: Client, relay: FrameRelay, permits: PermitAccount, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s", receiver_queue_size=7)
    await witnessed(client, topic, numbers(20))
    await until(lambda: len(consumer.queue) == 7, "a full queue")
    await take(consumer, 2, acknowledge=False)  # the consumer owes their permits until the cut
    assert permits.flows == [7]
    await relay.cut()
    await until(lambda: relay.connections == 2 and len(consumer.queue) == 7, "a full queue again")
    await fence(consumer)
    assert (permits.flows, permits.messages, len(consumer.queue)) == ([7], 7, 7)
    assert data(await take(consumer, 20)) == numbers(20)


@pytest.mark.row("S0.23", "S0.41")
@pytest.mark.parametrize("size", [0, 7])
async def test_before_the_first_flow_nothing_comes(
    client: Client, relayed: Client, relay: FrameRelay, permits: PermitAccount, topic: str, size: int
) -> None:
    consumer = await relayed.subscribe(topic, "s", receiver_queue_size=size, start_paused=True)
    await witnessed(client, topic, numbers(3))
    await relay.cut()
    await until(lambda: relay.connections == 2 and consumer.is_connected(), "the reconnect")
    await witnessed(client, topic, [b"3"])
    await fence(consumer)
    assert (permits.flows, permits.messages) == ([], 0)
    waiting = consumer.receive_async()
    consumer.resume()
    assert (await asyncio.wait_for(waiting, 20)).data() == b"0"
    assert permits.flows == [max(1, size)]


@pytest.mark.row("S0.43")
async def test_permits_of_half_the_queue_are_granted_in_one_flow(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s", receiver_queue_size=10)
    await publish(relayed, topic, numbers(20))
    await take(consumer, 4)
    await fence(consumer)
    assert permits.flows == [10]
    await take(consumer, 1)
    await fence(consumer)
    assert permits.flows == [10, 5]
    assert data(await take(consumer, 15)) == numbers(20)[5:]
    await fence(consumer)
    assert permits.flows == [10, 5, 5, 5, 5]


@pytest.mark.row("S0.43")
async def test_a_queue_of_one_grants_a_permit_for_each_message(
    relayed: Client, permits: PermitAccount, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s", receiver_queue_size=1)
    await publish(relayed, topic, numbers(3))
    assert data(await take(consumer, 3)) == numbers(3)
    await fence(consumer)
    assert permits.flows == [1, 1, 1, 1]


@pytest.mark.row("S0.43")
async def test_permits_granted_one_by_one_or_together_add_up_to_the_same(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    split = await relayed.subscribe(topic, "split", receiver_queue_size=9, start_paused=True)
    assert isinstance(split, TopicConsumer)
    split_id = split.consumer_id
    whole = await relayed.subscribe(topic, "whole", receiver_queue_size=9)

    def one_by_one(frame: Frame) -> list[Frame]:
        command = parse_command(frame.command)
        if command.type != BaseCommand.FLOW or command.flow.consumer_id != split_id:
            return [frame]
        permits, command.flow.messagePermits = command.flow.messagePermits, 1
        return [Frame(command.SerializeToString(), None)] * permits

    relay.to_broker = one_by_one
    split.resume()
    await witnessed(relayed, topic, numbers(30))
    both: list[Consumer] = [split, whole]
    for _ in range(2):
        await until(lambda: [len(each.queue) for each in both] == [9, 9], "full queues")
        for consumer in both:
            await fence(consumer)
            assert len(consumer.queue) == 9
            await take(consumer, 8)


@pytest.mark.row("S0.51")
async def test_a_message_is_counted_when_it_is_taken(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, [b"12345"] * 10, size=5)
    await until(lambda: len(consumer.queue) == 10, "all of them")
    found = consumer.statistics()
    assert (found.messages_delivered, found.messages_received, found.bytes_received) == (10, 0, 0)
    await take(consumer, 3)
    found = consumer.statistics()
    assert (found.messages_delivered, found.messages_received, found.bytes_received) == (10, 3, 15)
