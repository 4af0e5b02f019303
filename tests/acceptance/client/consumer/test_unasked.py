"""Messages that a whole Vela sends to a consumer without a queue while no receive waits."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.acceptance.client.consumer.consuming import (
    all_acknowledged,
    becomes,
    data,
    numbers,
    publish,
    take,
)
from tests.acceptance.client.sent_frames import fence
from tests.support.frame_relay import Frame, FrameRelay
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.options import ConsumerType
from vela.wire.binary.fields import parse_command
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

SHARED = ConsumerType.Shared


def two_for_one(frame: Frame) -> list[Frame]:
    """Turn a Flow of one permit into a Flow of two permits, so that the second message is unrequested."""
    command = parse_command(frame.command)
    if command.type != BaseCommand.FLOW or command.flow.messagePermits != 1:
        return [frame]
    command.flow.messagePermits = 2
    return [Frame(command.SerializeToString(), None)]


async def with_one_unasked(client: Client, relay: FrameRelay, topic: str) -> Consumer:
    """Return a consumer without a queue that has delivered "0" and holds "1", although it did not request "1"."""
    consumer = await client.subscribe(topic, "s", SHARED, receiver_queue_size=0)
    await publish(client, topic, numbers(3))
    as_it_is, relay.to_broker = relay.to_broker, two_for_one
    assert data(await take(consumer, 1)) == [b"0"]
    await until(lambda: len(consumer.queue) == 1, "the unrequested message")
    relay.to_broker = as_it_is
    return consumer


@pytest.mark.row("S0.23")
async def test_an_unrequested_message_goes_to_the_next_receive(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    consumer = await with_one_unasked(relayed, relay, topic)
    assert data(await take(consumer, 1)) == [b"1"]
    await fence(consumer)
    assert relay.count(events.Flow) == 1
    assert data(await take(consumer, 1)) == [b"2"]
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")


@pytest.mark.row("S0.23")
async def test_a_sent_message_stays_with_its_consumer_until_it_leaves(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    consumer = await with_one_unasked(relayed, relay, topic)
    other = await relayed.subscribe(topic, "s", SHARED)
    assert data(await take(other, 1)) == [b"2"]
    coming = other.receive_async()
    await fence(other)
    assert not coming.done()
    await consumer.close()
    assert (await asyncio.wait_for(coming, 20)).data() == b"1"
    assert consumer.statistics().messages_received == 1
