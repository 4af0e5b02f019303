"""The largest frame that a client takes from a whole Vela."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.acceptance.client.consumer.consuming import all_acknowledged, becomes, data, publish, take
from tests.support.frame_relay import Frame, FrameRelay
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.wire.binary.enums import ValidationError
from vela.wire.binary.fields import parse_command
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

PADDING_BYTES = 10 * 1024


def announces(relay: FrameRelay, largest_message_bytes: int) -> None:
    """Make the broker announce this limit in CONNECTED."""

    def change(frame: Frame) -> Sequence[Frame]:
        command = parse_command(frame.command)
        if command.type != BaseCommand.CONNECTED:
            return (frame,)
        command.connected.max_message_size = largest_message_bytes
        return (Frame(command.SerializeToString(), None),)

    relay.to_client = change


def grows_once(relay: FrameRelay, total_bytes: int) -> None:
    """Replace the next delivery with a frame that announces this many bytes, all 0 after the command."""
    otherwise = relay.to_client

    def grow(frame: Frame) -> Sequence[Frame]:
        if parse_command(frame.command).type != BaseCommand.MESSAGE:
            return otherwise(frame)
        relay.to_client = otherwise
        return (Frame(frame.command, bytes(total_bytes - 4 - len(frame.command))),)

    relay.to_client = grow


@pytest.mark.row("S0.10")
@pytest.mark.parametrize("announced_bytes", [None, 100_000], ids=["as-vela-says", "less"])
async def test_one_byte_more_than_the_largest_frame_closes_the_connection(
    relay: FrameRelay, relayed: Client, client: Client, topic: str, announced_bytes: int | None
) -> None:
    if announced_bytes is not None:
        announces(relay, announced_bytes)
    largest_frame_bytes = (announced_bytes or 5 * 1024 * 1024) + PADDING_BYTES
    consumer = await relayed.subscribe(topic, "s")
    assert isinstance(consumer, TopicConsumer)
    grows_once(relay, largest_frame_bytes)
    await publish(client, topic, [b"read as garbage"])
    await until(
        lambda: consumer.counters.discards,
        "the largest frame to be discarded, because it contains no message",
    )
    assert consumer.counters.discards == {ValidationError.CHECKSUM_MISMATCH: 1}
    assert relay.connections == 1
    grows_once(relay, largest_frame_bytes + 1)
    await publish(client, topic, [b"too large at first", b"behind it"])
    assert data(await take(consumer, 2)) == [b"too large at first", b"behind it"]
    assert relay.connections == 2
    assert consumer.counters.discards == {ValidationError.CHECKSUM_MISMATCH: 1}
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
