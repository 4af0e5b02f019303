"""What one binary connection refuses and what the log says about it."""

from __future__ import annotations

import logging

import pytest

from broker.core.position import Position
from tests.unit.doors.binary.frames import send
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, ServerError, SubType
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand


async def test_garbage_closes_the_connection_after_earlier_commands_are_answered(client: WireClient) -> None:
    client.tell(commands.ping() + b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff" + commands.ping())
    assert client.names() == ["PONG", "ERROR"]
    assert client.is_closed()


@pytest.mark.row("S0.10")
async def test_a_frame_that_announces_too_much_closes_before_it_is_buffered(client: WireClient) -> None:
    client.tell(b"\x7f\xff\xff\xff\x00\x00\x00\x02")
    assert client.names() == ["ERROR"]
    assert client.is_closed()


async def test_unsupported_commands_are_answered(client: WireClient) -> None:
    command = BaseCommand(type=BaseCommand.TC_CLIENT_CONNECT_REQUEST)
    command.tcClientConnectRequest.request_id = 4
    body = command.SerializeToString()
    size = len(body)
    client.tell((size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + body)
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.NOT_ALLOWED_ERROR
    assert not client.is_closed()


async def test_statistics_of_a_consumer_that_is_not_open_are_refused(client: WireClient) -> None:
    client.tell(commands.consumer_stats(3, request_id=1))
    (answer,) = client.heard()
    assert ServerError(answer.consumerStatsResponse.error_code) == ServerError.CONSUMER_NOT_FOUND


async def test_the_topics_of_a_namespace_are_listed_and_an_unknown_one_has_none(client: WireClient) -> None:
    client.broker.topic("orders")
    client.tell(commands.get_topics_of_namespace("public/default", request_id=1))
    client.tell(commands.get_topics_of_namespace("none/such", request_id=2))
    await settle()
    first, second = client.heard()
    assert list(first.getTopicsOfNamespaceResponse.topics) == [TOPIC]
    assert list(second.getTopicsOfNamespaceResponse.topics) == []


@pytest.mark.row("S1.9")
async def test_delivery_names_the_partition(client: WireClient) -> None:
    name = "persistent://public/default/parts-partition-2"
    client.tell(commands.producer(name, producer_id=1, request_id=1, name="p"))
    client.tell(
        commands.subscribe(
            name,
            "s",
            type=SubType.EXCLUSIVE,
            consumer_id=1,
            request_id=2,
            initial_position=InitialPosition.EARLIEST,
        )
    )
    await settle()
    client.heard()
    client.tell(send(0), commands.flow(1, 1))
    await settle()
    assert client.heard()[-1].message.message_id.partition == 2
    assert client.broker.topic(name).entries[0].entry_id == Position(1, 0).entry_id


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 20])
async def test_commands_sent_behind_connect_without_waiting_are_served(broker: FakeBroker, cut: int) -> None:
    client = WireClient(broker, connect=False)
    pieces = commands.connect(client_version="test", protocol_version=21) + commands.ping()
    client.tell(pieces[:cut])
    client.tell(pieces[cut:])
    assert client.names() == ["CONNECTED", "PONG"]
    assert not client.is_closed()


async def test_the_log_names_a_client_that_repeats_a_refused_request_once(
    client: WireClient, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    absent = "persistent://public/default/absent"
    with caplog.at_level(logging.WARNING):
        for request_id in range(9):
            client.tell(commands.get_schema(absent, request_id=request_id))
            client.tell(commands.producer(TOPIC, producer_id=request_id, request_id=100 + request_id))
            await settle()
        assert not caplog.records
        for request_id in range(20, 70):
            client.tell(commands.get_schema(absent, request_id=request_id))
            await settle()
        (said,) = [each.getMessage() for each in caplog.records]
        assert said.startswith("test:1 (binary, client 'test') repeats a refused request: ")
        assert f"GetSchema for {absent}, 10 times" in said
        assert "has no schema" in said
        client.connection.lost()
        assert "GetSchema was refused 59 times" in caplog.records[-1].getMessage()
        assert len(caplog.records) == 2
    assert broker.refused_requests == {"GetSchema": 59}


async def test_text_of_a_client_stays_on_one_short_line_of_the_log(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for request_id in range(10):
            client.tell(commands.lookup("a\nb" + "x" * 5000, request_id=request_id))
    (said,) = [each.getMessage() for each in caplog.records]
    assert "Lookup for a\\nbxxx" in said
    assert "\n" not in said
    assert len(said) < 1200


@pytest.mark.parametrize("pieces", [(b"\x16\x03\x01\x02\x00\x01",), (b"\x16", b"\x03\x03\x00\x9a\x01")])
async def test_a_client_that_begins_with_tls_learns_that_the_port_has_none(
    broker: FakeBroker, pieces: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    client = WireClient(broker, connect=False)
    with caplog.at_level(logging.INFO):
        client.tell(*pieces[:1])
        for piece in pieces[1:]:
            client.tell(piece)
    assert client.is_closed()
    (refused,) = client.heard()
    assert "TLS" in refused.error.message
    assert "pulsar://" in refused.error.message
    assert "TLS" in caplog.text


async def test_a_first_frame_larger_than_any_connect_closes_before_it_is_buffered(broker: FakeBroker) -> None:
    client = WireClient(broker, connect=False)
    connect = commands.connect(client_version="x" * 70_000, protocol_version=21)
    client.tell(connect[:100])
    (refused,) = client.heard()
    assert "CONNECT, with at most 65532 bytes" in refused.error.message
    assert client.is_closed()
