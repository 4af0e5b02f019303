"""The relay that other tests use: it passes frames on, records, changes and holds them, and cuts links."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.support.frame_relay import Frame, FrameRelay, frame_relay
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from vela import errors
from vela.aio.client import Client
from vela.wire.binary.fields import parse_command
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

LARGE = bytes(range(256)) * 8192  # 2 MiB: many pieces of a TCP stream, two WebSocket messages


def is_message(frame: Frame) -> bool:
    return parse_command(frame.command).type == BaseCommand.MESSAGE


async def test_frames_pass_whole_and_are_seen(relay: FrameRelay, topic: str) -> None:
    async with Client(relay.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        async with await client.create_producer(topic) as producer:
            await producer.send(LARGE)
        message = await asyncio.wait_for(consumer.receive(), 10)
        assert message.data() == LARGE
        consumer.acknowledge(message)
        await consumer.close()
    assert (relay.count(events.Connect), relay.count(events.Send), relay.count(events.Ack)) == (1, 1, 1)
    assert [event.subscription for event in relay.of(events.Subscribe)] == ["s"]
    assert relay.connections == 1
    await until(lambda: relay.open_connections == 0, "the client's goodbye")


async def test_frames_are_dropped_doubled_and_delayed(relay: FrameRelay, topic: str) -> None:
    async with Client(relay.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        relay.to_client = lambda frame: [] if is_message(frame) else [frame]
        await producer.send(b"dropped")
        await client.get_topic_partitions(topic)  # when this returns, the message has been dropped
        relay.to_client = lambda frame: [frame, frame] if is_message(frame) else [frame]
        await producer.send(b"doubled")
        assert [(await asyncio.wait_for(consumer.receive(), 10)).data() for _ in range(2)] == [b"doubled"] * 2
        relay.flows_to_broker.clear()
        sending = asyncio.create_task(producer.send(b"held"))
        with pytest.raises(errors.Timeout):
            await consumer.receive(100)
        relay.flows_to_broker.set()
        await asyncio.wait_for(sending, 10)


async def test_links_are_cut_and_clients_turned_away(relay: FrameRelay, topic: str) -> None:
    async with Client(relay.service_url, initial_backoff_ms=20) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"before")
        relay.is_admitting = False
        await relay.cut()
        assert (relay.connections, relay.open_connections) == (1, 0)
        await until(lambda: relay.attempts >= 3, "two attempts that fail")
        assert not producer.is_connected()
        relay.is_admitting = True
        await asyncio.wait_for(producer.send(b"after"), 10)
        assert relay.connections == 2


async def test_the_error_of_a_hook_is_not_lost(shared_vela: VelaProcess, transport: str, topic: str) -> None:
    def broken(frame: Frame) -> list[Frame]:
        raise RuntimeError("a hook's own fault")

    async def ask() -> None:
        async with frame_relay(shared_vela, transport) as relay:
            relay.to_client = broken
            async with Client(relay.service_url) as client:
                with pytest.raises(errors.ConnectError):
                    await client.connection_for(topic)

    with pytest.raises(RuntimeError, match="own fault"):
        await ask()
