"""How many sockets a client opens to a broker, and how they are set up."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from broker.doors.binary.wire import events
from tests.support.frame_relay import FrameRelay
from tests.support.waiting import until
from vela import errors
from vela.aio.client import Client


@pytest.mark.row("S0.1")
async def test_fifty_lookups_share_one_connection_and_one_attempt(relay: FrameRelay, topic: str) -> None:
    async with Client(relay.service_url) as client:
        found = await asyncio.gather(*(client.get_topic_partitions(topic) for _ in range(50)))
        assert found == [[topic]] * 50
        assert (relay.attempts, relay.count(events.Connect)) == (1, 1)
        assert relay.count(events.PartitionMetadata) == 50


@pytest.mark.row("S0.1")
async def test_no_more_connections_than_allowed_carry_lookups_producers_and_consumers(
    relay: FrameRelay, topic: str
) -> None:
    async with Client(relay.service_url, connections_per_broker=3) as client:
        await asyncio.gather(*(client.get_topic_partitions(topic) for _ in range(50)))
        await asyncio.gather(*(client.create_producer(topic) for _ in range(9)))
        await client.subscribe(topic, "s")
        assert (relay.attempts, relay.open_connections) == (3, 3)
    await until(lambda: relay.open_connections == 0, "the client's goodbye")


@pytest.mark.row("S0.1")
async def test_without_pooling_each_producer_and_consumer_has_a_connection_and_lookups_leave_none(
    relay: FrameRelay, topic: str
) -> None:
    async with Client(relay.service_url, connections_per_broker=0) as client:
        await asyncio.gather(*(client.get_topic_partitions(topic) for _ in range(5)))
        await until(lambda: relay.open_connections == 0, "the lookups' connections to close")
        assert relay.connections == 5
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        await until(lambda: relay.open_connections == 2, "one connection for each")
        await producer.close()
        await until(lambda: relay.open_connections == 1, "the consumer's alone")
        await consumer.close()
        await until(lambda: relay.open_connections == 0, "none")


@pytest.mark.row("S0.1")
async def test_concurrent_calls_fail_together_and_the_next_call_tries_again(
    relay: FrameRelay, topic: str
) -> None:
    async with Client(relay.service_url) as client:
        # Once a URL has worked, the client no longer checks which other protocol the port may speak.
        await client.get_topic_partitions(topic)
        await relay.cut()
        await until(lambda: not client.pool.connections, "the loss of the connection")
        relay.is_admitting = False
        outcomes = await asyncio.gather(
            *(client.connection_for(topic) for _ in range(5)), return_exceptions=True
        )
        assert {type(each) for each in outcomes} <= {errors.ConnectError, errors.ReadError}
        assert relay.attempts == 2
        relay.is_admitting = True
        assert await client.get_topic_partitions(topic) == [topic]
        assert (relay.attempts, relay.connections) == (3, 2)


def no_delay_of_sockets_to(port: int) -> dict[tuple[object, ...], bool]:
    """Return the TCP_NODELAY option of each of this process's connections to a port, by local address."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the folder itself is already closed
            if entry.readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as copy, suppress(OSError):
                    if copy.family == socket.AF_INET and copy.getpeername()[1] == port:
                        option = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                        found[copy.getsockname()] = bool(option)
    return found


@pytest.mark.row("S0.4")
@pytest.mark.parametrize("switch", [None, True, False], ids=["default", "on", "off"])
async def test_tcp_no_delay_reaches_the_socket(service_url: str, topic: str, switch: bool | None) -> None:
    port = urlsplit(service_url).port
    assert port is not None
    before = no_delay_of_sockets_to(port)
    async with Client(service_url) if switch is None else Client(service_url, tcp_no_delay=switch) as client:
        assert await client.get_topic_partitions(topic) == [topic]
        now = no_delay_of_sockets_to(port)
    assert [option for own, option in now.items() if own not in before] == [switch is not False]
