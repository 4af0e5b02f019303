"""docs/reference/binary-protocol.md and websocket-api.md: commands, errors, parameters and close codes by name."""

from __future__ import annotations

import inspect

from broker.access import authentication
from broker.conf import BrokerSettings
from broker.core import errors
from broker.core.errors import BrokerError
from broker.doors import read_gate
from broker.doors.binary import connection, peer, tcp
from broker.doors.binary.wire.decoding import DECODERS, UNBUILT
from broker.doors.http import daphne_protocol, daphne_server, inbound_queue
from broker.doors.server_errors import server_error
from broker.doors.websocket.json.errors import CloseCode
from broker.doors.websocket.json.frames import MAX_ITEMS_PER_FRAME
from broker.doors.websocket.producer import publish_lane
from broker.doors.websocket.socket import OPEN_TIMEOUT_S
from broker.producers import schemas
from broker.topics import client_requests
from tests.unit.docs.pages import code_names, page, python_files, rows, section
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand
from vela.wire.pb.vela_pulsar_pb2 import ServerError as PulsarServerError

SETTINGS = BrokerSettings()
BINARY = page("reference/binary-protocol.md")
WEBSOCKET = page("reference/websocket-api.md")


def test_every_command_a_client_may_send_has_its_row() -> None:
    may_send = {kind for kind in BaseCommand.Type.values() if kind in {*DECODERS, *UNBUILT, BaseCommand.SEND}}
    documented = [
        name.strip() for cells in rows(section(BINARY, "From the client")) for name in cells[0].split(",")
    ]
    assert sorted(documented) == sorted(BaseCommand.Type.Name(kind) for kind in may_send)


def test_every_error_has_its_row_with_the_code_that_clients_see() -> None:
    documented = {cells[0]: cells[1:3] for cells in rows(section(BINARY, "Errors"))}
    classes = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, BrokerError) and each.__module__ == errors.__name__
    ]
    assert documented == {each.__name__: [each.code, "yes" if each.retriable else "no"] for each in classes}
    for each in classes:
        assert server_error(each("text")) == int(PulsarServerError.Value(each.code))


def test_every_close_code_has_its_row() -> None:
    documented = [int(cells[0]) for cells in rows(section(WEBSOCKET, "Close codes"))]
    assert documented == sorted(CloseCode)


def test_every_query_parameter_the_code_reads_is_documented() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in python_files("broker/doors/websocket/json")
        if path.name in ("options.py", "paths.py", "encryption.py")
    )
    documented = {
        name for cells in rows(section(WEBSOCKET, "Query parameters")) for name in code_names(cells[0])
    }
    assert documented
    for name in documented:
        assert f'"{name}"' in source, f"{name} is not read"
    read = {name for name in _quoted(source) if name[:1].islower() and not name.islower() and name.isalpha()}
    assert read - documented - {"topics", "topicsPattern"} == set()


def _quoted(source: str) -> set[str]:
    return set(source.split('"')[1::2])


def _amount(size_bytes: int) -> str:
    return f"{size_bytes // 1024} KiB" if size_bytes < 1024**2 else f"{size_bytes // 1024**2} MiB"


def test_the_limits_of_the_websocket_api_are_documented() -> None:
    documented = {cells[0]: cells[1] for cells in rows(section(WEBSOCKET, "Limits"))}
    largest = "`VELA_MAX_MESSAGE_BYTES`"
    assert documented == {
        "a producer's frame": f"{largest} × 4/3 + {_amount(daphne_protocol.ENVELOPE_BYTES)}",
        "a consumer's or reader's frame": _amount(daphne_protocol.COMMAND_MESSAGE_BYTES),
        "a frame on `/ws/binary`": f"{largest} + {_amount(FRAME_PADDING_BYTES)}",
        "a message with its properties and key, as stored": (
            f"about {_amount(FRAME_PADDING_BYTES)} more than {largest}; above it `send-error:8`"
        ),
        "a message's `context`": f"{publish_lane.MAX_CONTEXT_CHARACTERS} characters; above it `send-error:8`",
        "messages or commands in an array": f"{MAX_ITEMS_PER_FRAME}",
        "sends without a receipt, then the socket is not read": (
            f"{read_gate.MAX_PENDING_SENDS}, or {_amount(read_gate.MAX_PENDING_BYTES)}"
        ),
        "frames that wait to be handled, then the socket is not read": (
            f"{inbound_queue.MAX_EVENTS}, or {_amount(inbound_queue.MAX_BYTES)}"
        ),
        "bytes the peer has not taken, then it gets no more messages": _amount(
            daphne_protocol.HIGH_WATER_BYTES
        ),
        "WebSockets open at the same time, `/ws/binary` included; one more is refused with 503": (
            f"{SETTINGS.max_websockets}, `VELA_MAX_WEBSOCKETS`"
        ),
        "opening": f"{OPEN_TIMEOUT_S:g} s",
        "ping of the broker, and silence after which it closes": (
            f"{daphne_server.PING_PERIOD_S} s, {daphne_server.PING_TIMEOUT_S} s"
        ),
    }


def test_the_limits_of_the_binary_protocol_are_documented() -> None:
    documented = {cells[0]: cells[1] for cells in rows(section(BINARY, "Limits"))}
    pending = f"{read_gate.MAX_PENDING_SENDS}, or {_amount(read_gate.MAX_PENDING_BYTES)};"
    assert documented["sends without a receipt, per connection"].startswith(pending)
    assert documented["requests under way, per connection"].startswith(f"{read_gate.MAX_PENDING_REQUESTS};")
    unread = _amount(peer.MAX_UNREAD_ANSWER_BYTES)
    assert documented["answers the peer has not read"].startswith(f"{unread};")
    assert documented["bytes of messages the peer has not taken"].startswith(
        f"{_amount(tcp.HIGH_WATER_BYTES)};"
    )
    assert documented["frame"].startswith(f"`VELA_MAX_MESSAGE_BYTES` plus {_amount(FRAME_PADDING_BYTES)};")
    assert documented["handshake"] == (
        f"CONNECT within {SETTINGS.handshake_timeout_s} s (`VELA_HANDSHAKE_TIMEOUT_S`), with at most"
        f" {_amount(connection.MAX_GREETING_BYTES)}; above it ERROR and close"
    )
    assert documented["token"].startswith(f"{_amount(authentication.MAX_TOKEN_BYTES)};")
    assert documented["time for which the peer takes none of the bytes that wait for it"].startswith(
        f"{tcp.TAKES_NOTHING_TIMEOUT_MS // 1000} s;"
    )
    assert documented["properties of a producer, a consumer or a new subscription"].startswith(
        _amount(client_requests.MAX_PROPERTIES_BYTES)
    )
    assert documented["schema"].startswith(
        f"a definition of {_amount(schemas.MAX_SCHEMA_BYTES)}, a name and properties of"
        f" {_amount(schemas.MAX_NAMES_BYTES)};"
    )
    assert documented["schema versions of a topic"].startswith(
        f"{schemas.MAX_VERSIONS:,}, with {_amount(schemas.MAX_TOPIC_BYTES)} in all;"
    )
