"""The client engine: states and what it refuses."""

from __future__ import annotations

import pytest

from broker.doors.binary.wire import answers
from broker.doors.binary.wire.engine import ServerEngine
from broker.doors.binary.wire.events import Connect
from tests.unit.wire.binary.engines import CONNECTED, LIMIT, connected_engine
from vela.wire.binary import commands, replies
from vela.wire.binary.client import DEFAULT_MAX_MESSAGE_BYTES, ClientEngine
from vela.wire.binary.enums import ServerError
from vela.wire.binary.handshake import ConnectionState
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.errors import (
    FrameTooLarge,
    LocalProtocolError,
    UnexpectedCommand,
)


def state_of(engine: ClientEngine) -> ConnectionState:
    """Return the engine's state. After an assert on the attribute itself, mypy would assume that it cannot change."""
    return engine.state


def test_the_two_engines_shake_hands() -> None:
    server = ServerEngine(server_version="Vela 1", max_message_bytes=LIMIT)
    client = ClientEngine(client_version="Vela test")
    assert client.state is ConnectionState.START
    (event,) = server.receive(
        client.connect(auth_method="token", auth_data=b"t", proxy_to_broker_url="b:6650")
    )
    assert event == Connect(
        client_version="Vela test",
        protocol_version=21,
        auth_method="token",
        auth_data=b"t",
        proxy_to_broker_url="b:6650",
        supports_auth_refresh=True,
    )
    assert state_of(client) is ConnectionState.CONNECTING
    server.send_connected()
    (reply,) = client.receive(b"".join(server.data_to_send()))
    assert reply == replies.Connected(server_version="Vela 1", protocol_version=21, max_message_bytes=LIMIT)
    assert state_of(client) is ConnectionState.CONNECTED
    assert (client.server_version, client.protocol_version, client.max_message_bytes) == ("Vela 1", 21, LIMIT)


def test_credentials_are_asked_for_in_the_handshake_and_later() -> None:
    server = ServerEngine(server_version="Vela 1", max_message_bytes=LIMIT)
    client = ClientEngine(client_version="Vela test")
    server.receive(client.connect(auth_method="token", auth_data=b"old"))
    server.send_auth_challenge("token", b"again")
    assert client.receive(b"".join(server.data_to_send())) == [
        replies.AuthChallenge(auth_method="token", challenge=b"again")
    ]
    server.receive(client.auth_response("token", b"new"))
    server.send_connected()
    server.send_auth_challenge("token", b"")
    assert client.receive(b"".join(server.data_to_send()))[1:] == [
        replies.AuthChallenge(auth_method="token", challenge=b"")
    ]


def test_connect_is_sent_once() -> None:
    with pytest.raises(LocalProtocolError):
        connected_engine().connect()


@pytest.mark.parametrize("early", [commands.ping(), answers.success(1), CONNECTED])
def test_a_broker_says_nothing_before_connect_is_sent(early: bytes) -> None:
    with pytest.raises(UnexpectedCommand, match="start"):
        ClientEngine(client_version="x").receive(early)


@pytest.mark.parametrize("early", [commands.ping(), answers.success(1)])
def test_until_connected_only_commands_of_the_handshake_are_accepted(early: bytes) -> None:
    engine = ClientEngine(client_version="x")
    engine.connect()
    with pytest.raises(UnexpectedCommand, match="connecting"):
        engine.receive(early)


def test_a_second_connected_breaks_the_protocol() -> None:
    engine = connected_engine()
    with pytest.raises(UnexpectedCommand, match="CONNECTED must not"):
        engine.receive(CONNECTED)
    with pytest.raises(LocalProtocolError):
        engine.receive(commands.ping())


def test_a_refused_connection_takes_nothing_more() -> None:
    engine = ClientEngine(client_version="x")
    engine.connect()
    refused = answers.error(commands.NO_REQUEST, ServerError.AUTHENTICATION_ERROR, "no")
    assert engine.receive(refused) == [replies.Refusal(-1, ServerError.AUTHENTICATION_ERROR, "no")]
    assert engine.state is ConnectionState.FAILED


def test_a_refused_request_leaves_the_connection_alone() -> None:
    engine = connected_engine()
    refused = answers.error(7, ServerError.CONSUMER_BUSY, "no")
    assert engine.receive(refused) == [replies.Refusal(7, ServerError.CONSUMER_BUSY, "no")]
    assert engine.state is ConnectionState.CONNECTED


def test_the_brokers_limit_counts_once_it_is_known() -> None:
    engine = ClientEngine(client_version="x")
    engine.connect()
    assert engine.max_message_bytes == DEFAULT_MAX_MESSAGE_BYTES
    engine.receive(CONNECTED)
    at_the_limit = LIMIT + FRAME_PADDING_BYTES
    engine.receive(at_the_limit.to_bytes(4, "big") + bytes(4))
    with pytest.raises(FrameTooLarge):
        connected_engine().receive((at_the_limit + 1).to_bytes(4, "big") + bytes(4))


def test_the_brokers_limit_counts_for_frames_in_the_same_bytes() -> None:
    engine = ClientEngine(client_version="x")
    engine.connect()
    above_the_limit = LIMIT + FRAME_PADDING_BYTES + 1
    with pytest.raises(FrameTooLarge) as refused:
        engine.receive(CONNECTED + above_the_limit.to_bytes(4, "big") + bytes(4))
    assert [type(event) for event in refused.value.events] == [replies.Connected]


def test_what_follows_a_refused_connection_is_ignored() -> None:
    engine = connected_engine()
    refused = answers.error(commands.NO_REQUEST, ServerError.SERVICE_NOT_READY, "no")
    assert engine.receive(refused + commands.ping()) == [
        replies.Refusal(-1, ServerError.SERVICE_NOT_READY, "no")
    ]
    assert engine.state is ConnectionState.FAILED
