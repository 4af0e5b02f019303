"""The TCP listener with Apache's client, and with peers that misbehave."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator

import pulsar
import pytest

from broker.doors.binary.tcp import TcpListener
from tests.unit.doors.fake_broker import FakeBroker
from vela.wire.binary import commands


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
async def listener(broker: FakeBroker) -> AsyncIterator[TcpListener]:
    listener = TcpListener(broker)
    await listener.start("127.0.0.1", 0)
    url = f"pulsar://127.0.0.1:{listener.port}"
    broker.settings = dataclasses.replace(broker.settings, advertised_url=url)
    yield listener
    await listener.stop()


def produce_consume_and_read(url: str) -> list[str]:
    """Use Apache's client, and return what an application sees."""
    seen: list[str] = []
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        consumer = client.subscribe("orders", "s", initial_position=pulsar.InitialPosition.Earliest)
        for batching in (True, False):
            producer = client.create_producer("orders", batching_enabled=batching)
            for number in range(3):
                producer.send_async(b"%d" % number, lambda _result, _id: None)
            producer.flush()
            producer.close()
        for _ in range(6):
            message = consumer.receive(10_000)
            seen.append(message.data().decode())
            consumer.acknowledge(message)
        consumer.seek(pulsar.MessageId.earliest)
        seen.append(consumer.receive(10_000).data().decode())
        reader = client.create_reader("orders", pulsar.MessageId.earliest)
        while reader.has_message_available():
            seen.append(reader.read_next(10_000).data().decode())
        consumer.unsubscribe()
    finally:
        client.close()
    return seen


async def test_apaches_client_produces_consumes_seeks_and_reads(listener: TcpListener) -> None:
    url = f"pulsar://127.0.0.1:{listener.port}"
    seen = await asyncio.wait_for(asyncio.to_thread(produce_consume_and_read, url), 60)
    assert "".join(seen) == "012012" + "0" + "012012"


async def test_garbage_is_answered_by_a_close_and_does_not_disturb_others(listener: TcpListener) -> None:
    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", listener.port)
    other_writer.write(commands.connect(client_version="other", protocol_version=21))
    await asyncio.wait_for(other_reader.read(1), 5)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x08\x00\x00\x00\x04abcd", bytes(100)):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(garbage)
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
    other_writer.write(commands.ping())
    assert await asyncio.wait_for(other_reader.read(1), 5)
    other_writer.close()


async def test_the_system_closes_connections_that_take_no_bytes(
    listener: TcpListener,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(commands.connect(client_version="x", protocol_version=21))
    await asyncio.wait_for(reader.read(1), 5)
    (protocol,) = listener._protocols
    served = protocol._link._transport.get_extra_info("socket")
    assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
    writer.close()


async def test_stopping_closes_connections_after_sending_written_data(broker: FakeBroker) -> None:
    listener = TcpListener(broker)
    await listener.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(commands.connect(client_version="x", protocol_version=21))
    first = await asyncio.wait_for(reader.read(1), 5)
    await listener.stop()
    assert len(first + await asyncio.wait_for(reader.read(), 5)) > 20
    writer.close()


async def test_a_taken_port_is_an_error_that_names_it(listener: TcpListener, broker: FakeBroker) -> None:
    with pytest.raises(OSError, match="address already in use"):
        await TcpListener(broker).start("127.0.0.1", listener.port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
async def test_all_addresses_of_ipv6_are_those_of_ipv4_too(broker: FakeBroker) -> None:
    listener = TcpListener(broker)
    await listener.start("::", 0)
    for host in ("::1", "127.0.0.1"):
        reader, writer = await asyncio.open_connection(host, listener.port)
        writer.write(commands.connect(client_version="x", protocol_version=21))
        assert await asyncio.wait_for(reader.read(1), 5)
        writer.close()
    await listener.stop()
