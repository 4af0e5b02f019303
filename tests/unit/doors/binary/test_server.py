"""The server engine: the handshake and its states."""

from __future__ import annotations

import pytest

from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from tests.unit.doors.binary.engines import (
    MAX_MESSAGE_BYTES,
    connected_engine,
    new_engine,
)
from tests.unit.wire.binary.written import only_command
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError
from vela.wire.binary.handshake import ConnectionState
from vela.wire.errors import (
    LocalProtocolError,
    UnexpectedCommand,
)
from vela.wire.pb import vela_pulsar_pb2 as pb


def state_of(engine: ServerEngine) -> ConnectionState:
    """Return the engine's state. After an assert on the attribute itself, mypy would assume that it cannot change."""
    return engine.state


def test_the_handshake_reads_connect_and_answers_connected() -> None:
    engine = new_engine()
    (event,) = engine.receive(
        commands.connect(
            client_version="Pulsar-CPP-v3.7", protocol_version=19, auth_method="token", auth_data=b"t"
        )
    )
    assert event == events.Connect(
        client_version="Pulsar-CPP-v3.7",
        protocol_version=19,
        auth_method="token",
        auth_data=b"t",
        proxy_to_broker_url=None,
        supports_auth_refresh=True,
    )
    assert engine.state is ConnectionState.CONNECTING
    engine.send_connected()
    assert state_of(engine) is ConnectionState.CONNECTED
    answer = only_command(engine.data_to_send()).connected
    assert (answer.server_version, answer.protocol_version) == ("Vela test", 19)
    assert answer.max_message_size == MAX_MESSAGE_BYTES
    assert not answer.feature_flags.supports_broker_entry_metadata
    assert engine.data_to_send() == []


def test_a_newer_client_is_answered_with_our_version() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=99))
    engine.send_connected()
    assert only_command(engine.data_to_send()).connected.protocol_version == 21


def test_authentication_may_take_several_steps() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21, auth_method="sasl"))
    engine.send_auth_challenge("sasl", b"prove it")
    challenge = only_command(engine.data_to_send()).authChallenge.challenge
    assert (challenge.auth_method_name, challenge.auth_data) == ("sasl", b"prove it")
    assert engine.receive(
        commands.auth_response(client_version="x", protocol_version=21, auth_method="sasl", data=b"proof")
    ) == [events.AuthResponse(auth_method="sasl", auth_data=b"proof")]


@pytest.mark.parametrize("early", [commands.ping(), commands.flow(1, 1), b"".join(commands.send(1, 1, b"x"))])
def test_nothing_may_come_before_connect_or_before_its_answer(early: bytes) -> None:
    with pytest.raises(UnexpectedCommand, match="start"):
        new_engine().receive(early)
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21))
    with pytest.raises(UnexpectedCommand, match="connecting"):
        engine.receive(early)


def test_a_second_connect_breaks_the_protocol() -> None:
    engine = connected_engine()
    with pytest.raises(UnexpectedCommand, match="CONNECT must not"):
        engine.receive(commands.connect(client_version="x", protocol_version=21))
    assert engine.state is ConnectionState.FAILED
    with pytest.raises(LocalProtocolError):
        engine.receive(commands.ping())


def test_connected_is_sent_once_and_only_when_asked_for() -> None:
    with pytest.raises(LocalProtocolError):
        new_engine().send_connected()
    with pytest.raises(LocalProtocolError):
        connected_engine().send_connected()


def test_a_refused_connection_gets_an_error_and_takes_nothing_more() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21))
    engine.refuse_connection(ServerError.AUTHENTICATION_ERROR, "no")
    answer = only_command(engine.data_to_send()).error
    assert (answer.error, answer.request_id) == (pb.AuthenticationError, 2**64 - 1)
    assert engine.state is ConnectionState.FAILED
