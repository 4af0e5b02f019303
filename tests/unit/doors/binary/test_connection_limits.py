"""The limits of one connection and of one address: a refusal names the setting, and the broker counts it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from broker.core.errors import TooManyConnections
from broker.doors.binary.tcp import TcpListener
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.aio import Client
from vela.errors import VelaError
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType


def broker_with(**limits: Any) -> FakeBroker:
    broker = FakeBroker()
    broker.settings = dataclasses.replace(broker.settings, **limits)
    broker.connections = ConnectionLimits(broker.settings, LoopTime(now_ns=lambda: 0))
    return broker


async def test_one_producer_too_many_is_refused_until_another_closes() -> None:
    broker = broker_with(max_producers_per_connection=2)
    client = WireClient(broker)
    await client.open_producer(1, name="a")
    await client.open_producer(2, name="b")
    third = commands.producer(TOPIC, producer_id=3, request_id=9, name="c")
    client.tell(third)
    (refused,) = client.heard()
    assert refused.error.error == int(ServerError.NOT_ALLOWED_ERROR)
    assert "has 2 producers, the most that VELA_MAX_PRODUCERS_PER_CONNECTION allows" in refused.error.message
    assert broker.connections.times_reached == {"VELA_MAX_PRODUCERS_PER_CONNECTION": 1}
    assert broker.refused_requests == {"OpenProducer": 1}
    client.tell(commands.close_producer(producer_id=1, request_id=10))
    await settle()
    client.tell(third)
    await settle()
    assert client.names() == ["SUCCESS", "PRODUCER_SUCCESS"]


async def test_one_consumer_too_many_is_refused() -> None:
    broker = broker_with(max_consumers_per_connection=1)
    client = WireClient(broker)
    await client.subscribe(1)
    client.tell(commands.subscribe(TOPIC, "t", type=SubType.SHARED, consumer_id=2, request_id=9))
    (refused,) = client.heard()
    assert refused.error.error == int(ServerError.NOT_ALLOWED_ERROR)
    assert "VELA_MAX_CONSUMERS_PER_CONNECTION" in refused.error.message
    assert broker.connections.times_reached == {"VELA_MAX_CONSUMERS_PER_CONNECTION": 1}


async def test_one_lookup_too_many_is_refused_until_the_others_are_answered() -> None:
    broker = broker_with(max_lookups_per_connection=2)
    client = WireClient(broker)
    asked = [commands.partition_metadata(TOPIC, request_id=number) for number in range(3)]
    client.tell(*asked)
    (refused,) = client.heard()
    assert refused.partitionMetadataResponse.error == int(ServerError.TOO_MANY_REQUESTS)
    assert "VELA_MAX_LOOKUPS_PER_CONNECTION" in refused.partitionMetadataResponse.message
    await settle()
    assert len(client.heard()) == 2
    client.tell(*asked[:2])
    await settle()
    assert len(client.heard()) == 2
    assert broker.connections.times_reached == {"VELA_MAX_LOOKUPS_PER_CONNECTION": 1}


async def test_a_connection_that_asks_too_fast_is_read_more_slowly_and_loses_nothing() -> None:
    broker = broker_with(connection_request_rate=10)
    client = WireClient(broker)
    client.tell(*(commands.lookup(TOPIC, request_id=number) for number in range(25)))
    assert len(client.heard()) == 10
    assert not client.is_read_from()
    for answered, is_read_from in ((10, False), (5, True)):
        client.timers.advance(1_000)
        await settle()
        assert len(client.heard()) == answered
        assert client.is_read_from() is is_read_from
    assert broker.connections.times_reached == {"VELA_CONNECTION_REQUEST_RATE": 2}


async def test_a_connection_that_sends_no_connect_is_closed_and_counted() -> None:
    broker = broker_with(handshake_timeout_s=10)
    client = WireClient(broker, connect=False)
    client.timers.advance(9_900)
    assert not client.is_closed()
    client.timers.advance(200)
    assert client.is_closed()
    assert broker.connections.times_reached == {"VELA_HANDSHAKE_TIMEOUT_S": 1}


async def test_a_connection_over_the_limit_is_refused_until_another_closes() -> None:
    broker = broker_with(max_connections=1)
    listener = TcpListener(broker)
    await listener.start("127.0.0.1", 0)
    url = f"pulsar://127.0.0.1:{listener.port}"
    broker.settings = dataclasses.replace(broker.settings, advertised_url=url)
    try:
        _, first = await asyncio.open_connection("127.0.0.1", listener.port)
        await until(lambda: broker.connections.open == 1, "the first to be counted")
        async with Client(url, operation_timeout_seconds=0.3) as client:
            with pytest.raises(
                VelaError, match="serves 1 connections, the most that VELA_MAX_CONNECTIONS allows"
            ):
                await client.get_topic_partitions(TOPIC)
        assert broker.connections.times_reached["VELA_MAX_CONNECTIONS"] > 0
        first.close()
        await until(lambda: broker.connections.open == 0, "room")
        async with Client(url) as client:
            assert await client.get_topic_partitions(TOPIC)
        await until(lambda: broker.connections.open == 0, "the client to be gone")
    finally:
        await listener.stop()


def test_a_flood_of_refused_connections_has_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    limits = broker_with(max_connections_per_address=1).connections
    place = limits.admit("10.0.0.1")
    limits.admit("10.0.0.2")
    for _ in range(100):
        with pytest.raises(TooManyConnections, match=r"10\.0\.0\.1 has 1 connections"):
            limits.admit("10.0.0.1")
    (said,) = caplog.messages
    assert "VELA_MAX_CONNECTIONS_PER_ADDRESS" in said
    for _ in range(2):  # safe to repeat
        place.leave()
    assert limits.open == 1
    limits.admit("10.0.0.1")
