"""Recorded frames of Apache's Python client: Vela's client reads its batches, and sends the same commands.

The frames were recorded by tests/support/record_apache.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from tests.integration.client.consumer.desk import TOPIC, Desk, owed
from tests.support.record_apache import DATA, recorded
from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.encryption.key_reader import CryptoKeyReader
from vela.message import Message
from vela.options import ConsumerType
from vela.wire.binary import replies
from vela.wire.binary.client import ClientEngine

EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((DATA / "messages.json").read_text(encoding="utf-8"))
PRODUCERS = sorted(name for name, messages in EXPECTED.items() if messages)


def commands_of(name: str) -> Iterator[events.Event]:
    """Return the commands that the client of a scenario sent, over all its connections."""
    for data in recorded(name, "client"):
        engine = ServerEngine(server_version="replay", max_message_bytes=5 << 20)
        at = 0
        while at < len(data):  # frame by frame, so that the handshake gets its answer in between
            size = 4 + int.from_bytes(data[at : at + 4], "big")
            for event in engine.receive(data[at : at + size]):
                if isinstance(event, events.Connect):
                    engine.send_connected()
                yield event
            at += size


def seen(message: Message) -> dict[str, Any]:
    """Return the parts of a message that the recorder could set, without empty parts."""
    parts: dict[str, Any] = {
        "data": message.data(),
        "properties": message.properties(),
        "partition_key": message.partition_key(),
        "ordering_key": message.ordering_key(),
        "event_timestamp": message.event_timestamp(),
    }
    return {name: value for name, value in parts.items() if value or name == "data"}


def wanted(message: dict[str, Any]) -> dict[str, Any]:
    parts = {key: value for key, value in message.items() if key not in ("text", "times")}
    return {"data": message["text"].encode() * message.get("times", 1), **parts}


@pytest.mark.row("S0.25")
@pytest.mark.parametrize("name", PRODUCERS)
async def test_frames_of_apaches_producer_are_read(desk: Desk, name: str) -> None:
    reader = CryptoKeyReader(str(DATA / "public-key.pem"), str(DATA / "private-key.pem"))
    consumer = await desk.subscribe(crypto_key_reader=reader)
    sends = [event for event in commands_of(name) if isinstance(event, events.Send)]
    for send in sends:
        desk.deliver(send.entry_block, messages=send.messages)
    async with asyncio.timeout(10):
        messages = [await consumer.receive() for _ in EXPECTED[name]]
    expected = [wanted(message) for message in EXPECTED[name]]
    found = [seen(message) for message in messages]
    # Each batch has one key, and only messages with the same key keep their order.
    if name == "keyed_batches":
        expected.sort(key=lambda message: str(message["partition_key"]))
        found.sort(key=lambda message: str(message["partition_key"]))
    assert found == expected
    assert {message.producer_name() for message in messages} == {"recorded"}
    if "batched" in name:
        assert len(sends) < len(messages)
        assert messages[1].message_id().batch_index() == 1
    if name == "chunked":
        assert len(sends) > 1
        assert len(messages[0].entry.chunks) == len(sends)
    if name == "encrypted":
        assert messages[0].encryption_context() is not None
    await until(lambda: desk.permits + owed(consumer) == 1000, "all permits")
    assert desk.discards() == []


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_answers_of_the_broker_to_apaches_client_are_understood(piece: int) -> None:
    for data in recorded("consumer", "broker"):
        engine = ClientEngine(client_version="replay")
        engine.connect()
        heard: list[replies.Reply] = []
        for start in range(0, len(data), piece):
            heard += engine.receive(data[start : start + piece])
        assert isinstance(heard[0], replies.Connected)
        if messages := [reply for reply in heard if isinstance(reply, replies.Message)]:
            assert [reply.entry_id for reply in messages] == list(range(10))


async def test_this_consumer_sends_the_same_commands_as_apaches(desk: Desk) -> None:
    theirs = list(commands_of("consumer"))
    consumer = await desk.subscribe(
        consumer_type=ConsumerType.Shared, receiver_queue_size=4, consumer_name="c"
    )
    for number in range(10):
        await until(lambda: desk.permits > 0, "a permit")
        desk.deliver(single(b"%d" % number))
        await consumer.acknowledge(await consumer.receive())
    await consumer.close()

    def of(kind: type, heard: list[events.Event]) -> list[Any]:
        return [event for event in heard if isinstance(event, kind)]

    mine, other = of(events.Subscribe, desk.peer.heard)[0], of(events.Subscribe, theirs)[0]
    same = (
        "type",
        "consumer_name",
        "priority",
        "durable",
        "initial_position",
        "read_compacted",
        "create_topic",
    )
    assert [getattr(mine, field) for field in same] == [getattr(other, field) for field in same]
    assert mine.topic == TOPIC
    assert [flow.permits for flow in of(events.Flow, desk.peer.heard)] == [
        flow.permits for flow in of(events.Flow, theirs)
    ]
    acked = [
        [each.entry_id for ack in of(events.Ack, heard) for each in ack.ids]
        for heard in (desk.peer.heard, theirs)
    ]
    assert sorted(acked[0]) == sorted(acked[1]) == list(range(10))
    assert len(of(events.CloseConsumer, desk.peer.heard)) == len(of(events.CloseConsumer, theirs)) == 1
