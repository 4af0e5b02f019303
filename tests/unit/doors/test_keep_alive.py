"""Keep-alive of a binary connection, on a clock that the test moves."""

from __future__ import annotations

import asyncio

from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import WireClient
from vela.wire.binary import commands


async def test_a_peer_that_never_connects_is_dropped() -> None:
    client = WireClient(FakeBroker(), connect=False)
    client.timers.advance(30_100)
    assert client.is_closed()


async def test_a_silent_peer_is_pinged_then_dropped() -> None:
    client = WireClient(FakeBroker())
    client.timers.advance(30_100)
    assert client.names() == ["PING"]
    assert not client.is_closed()
    client.timers.advance(30_100)
    assert client.is_closed()


async def test_any_bytes_count_as_an_answer() -> None:
    client = WireClient(FakeBroker())
    for _ in range(5):
        client.timers.advance(30_100)
        client.tell(commands.lookup("orders", request_id=1))
    assert client.names().count("PING") == 5
    assert not client.is_closed()


async def test_a_peer_that_is_not_being_read_from_is_not_judged() -> None:
    client = WireClient(FakeBroker())
    client.connection.gate.output_stuck(stuck=True)
    client.timers.advance(300_000)
    assert not client.is_closed()
    assert await client.connection.peer.is_alive()


async def test_a_peer_gets_a_whole_period_after_the_broker_reads_from_it_again() -> None:
    client = WireClient(FakeBroker())
    client.timers.advance(30_100)
    client.connection.gate.output_stuck(stuck=True)
    client.timers.advance(59_800)
    client.connection.gate.output_stuck(stuck=False)
    client.timers.advance(200)  # its answer to the ping may still be in the socket
    assert not client.is_closed()
    client.timers.advance(30_000)
    assert client.is_closed()


async def test_an_answer_may_be_in_the_socket_right_after_the_broker_reads_again() -> None:
    client = WireClient(FakeBroker())
    client.timers.advance(30_100)  # a ping is out
    client.connection.gate.output_stuck(stuck=True)
    client.timers.advance(29_800)
    client.connection.gate.output_stuck(stuck=False)
    client.timers.advance(200)
    assert not client.is_closed()
    probe = asyncio.ensure_future(client.connection.peer.is_alive())
    await client.settle()
    client.connection.gate.output_stuck(stuck=True)
    client.timers.advance(4_900)
    client.connection.gate.output_stuck(stuck=False)
    client.timers.advance(200)
    assert await probe
    client.timers.advance(60_000)
    assert client.is_closed()


async def test_a_probe_says_nothing_of_a_peer_that_the_broker_stops_reading_from() -> None:
    client = WireClient(FakeBroker())
    probe = asyncio.ensure_future(client.connection.peer.is_alive())
    await client.settle()
    client.connection.gate.output_stuck(stuck=True)
    client.timers.advance(5_100)
    assert await probe
    assert not client.is_closed()


async def test_a_probe_of_a_lost_connection_says_dead() -> None:
    client = WireClient(FakeBroker())
    probe = asyncio.ensure_future(client.connection.peer.is_alive())
    await client.settle()
    client.connection.lost()
    assert not await probe
    assert not await client.connection.peer.is_alive()
