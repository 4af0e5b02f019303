"""Ports where another program answers, and WebSocket servers that refuse or misbehave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import ScriptedPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.connections.connection import Connection

TOPIC = "persistent://public/default/t"


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[int]:
    """Run a server that gives this answer to everything. Yield its port."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("pulsar", HTTP, "does not speak the protocol; is the port right"),
        ("pulsar", b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak the protocol; is the port right"),
        ("pulsar", HTTP, "that is HTTP; the URL of a broker's HTTP port begins with ws://"),
        ("pulsar", b"\x15\x03\x03\x00\x02\x02\x46", "that is TLS; .* begins with pulsar\\+ssl://"),
        ("pulsar", b"hi", "It sent b'hi'"),
        ("pulsar", bytes(8), "a command of 0 bytes in a frame of 0"),
        ("pulsar+ssl", HTTP, "the TLS handshake failed: the server does not speak TLS"),
        ("ws", HTTP, "answers HTTP 400.* If the port requires TLS, the URL begins with wss://"),
        ("ws", HTTP.replace(b"400 Bad Request", b"421 Misdirected Request"), "VELA_ALLOWED_HOSTS can add it"),
        ("ws", b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak WebSocket"),
        ("ws", b"hi", "does not speak WebSocket; is the port right\\? It sent b'hi'"),
        ("ws", b"\0\0\0\x48", "begins with pulsar://"),
        ("wss", HTTP, "the TLS handshake failed"),
    ],
)
async def test_a_port_that_speaks_another_protocol_raises_at_once(
    scheme: str, answer: bytes, said: str
) -> None:
    async with speaking(answer) as port, Client(f"{scheme}://127.0.0.1:{port}") as client:
        with pytest.raises(errors.HandshakeError, match=said):
            await client.create_producer(TOPIC)
        with pytest.raises(errors.HandshakeError, match=re.escape(f"127.0.0.1:{port}")):
            await client.subscribe(TOPIC, "s")


async def test_a_refusal_without_a_length_ends_with_the_connection() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 403 Access denied\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with Client(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(
            errors.HandshakeError, match=r"answers HTTP 403 and closes the connection.* not the console's"
        ):
            await client.subscribe(TOPIC, "s")
    server.close()


async def test_an_interrupted_handshake_is_reported_with_the_data_received() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(bytes(3))
        writer.close()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    async with Client(f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(
            errors.ConnectError, match=r"began with .* and did not finish the handshake"
        ) as said:
            await client.connection_for(TOPIC)
        assert "did not answer" not in str(said.value)
    server.close()


@asynccontextmanager
async def closing(taken: list[int]) -> AsyncIterator[int]:
    """Run a server that closes connections without an answer. Yield its port. `taken` grows with each connection."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(1)
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("pulsar", "it accepted the connection but did not answer; is the port right"),
        (
            "pulsar+ssl",
            "no connection to pulsar\\+ssl://127.*(closed the connection during the TLS handshake|reset by peer)",
        ),
        ("ws", "closed the connection instead of upgrading it"),
    ],
)
async def test_a_port_that_closes_without_an_answer_is_retried_and_named_at_the_end(
    scheme: str, said: str
) -> None:
    taken: list[int] = []
    async with (
        closing(taken) as port,
        Client(f"{scheme}://127.0.0.1:{port}", operation_timeout_seconds=0.4, initial_backoff_ms=5) as client,
    ):
        with pytest.raises(errors.Timeout, match=f"given up after 0.4 s; the last failure: .*{said}"):
            await client.create_producer(TOPIC)
    # One attempt makes three connections, because the client also checks which other protocol the port may speak.
    assert len(taken) > 3


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("pulsar", "accepted the connection but did not answer; is the port right"),
        ("pulsar+ssl", "is not open yet"),
        ("ws", "accepted the connection but did not answer; is the port right"),
    ],
)
async def test_a_port_that_says_nothing_is_a_timeout_that_says_so(scheme: str, said: str) -> None:
    async with speaking(b"") as port:
        url = f"{scheme}://127.0.0.1:{port}"
        async with Client(url, operation_timeout_seconds=0.2) as client:
            with pytest.raises(errors.Timeout, match=f"given up after 0.2 s; .*{said}"):
                await client.create_producer(TOPIC)
        async with Client(url, connection_timeout_ms=100) as client:
            with pytest.raises(errors.ConnectError, match=f"not connected within 0.1 s: .*{said}"):
                await client.connection_for(TOPIC)


async def test_a_handshake_that_does_not_finish_is_a_timeout_that_says_so() -> None:
    async with (
        speaking(b"\0\0\x10\0\0\0\x01\0") as port,
        Client(f"pulsar://127.0.0.1:{port}", operation_timeout_seconds=0.2) as client,
    ):
        with pytest.raises(errors.Timeout, match=r"began with .* and did not finish the handshake"):
            await client.subscribe(TOPIC, "s")


@asynccontextmanager
async def refusing(*statuses: HTTPStatus) -> AsyncIterator[tuple[str, list[str]]]:
    """Run a WebSocket server that refuses with these statuses and repeats the last one. Yield its URL and the paths."""
    paths: list[str] = []

    def refuse(connection: ServerConnection, request: Request) -> Response:
        paths.append(request.path)
        return connection.respond(statuses[min(len(paths), len(statuses)) - 1], "refused")

    async with serve(lambda _: asyncio.sleep(0), "127.0.0.1", 0, process_request=refuse) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}", paths


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (HTTPStatus.NOT_FOUND, errors.HandshakeError),
        (HTTPStatus.UNAUTHORIZED, errors.AuthenticationError),
        (HTTPStatus.FORBIDDEN, errors.AuthorizationError),
    ],
)
async def test_an_upgrade_that_is_refused_is_raised_at_once(
    status: HTTPStatus, kind: type[errors.VelaError]
) -> None:
    async with refusing(status) as (url, paths), Client(f"{url}/inner/") as client:
        with pytest.raises(kind, match=f"answers HTTP {int(status)}"):
            await client.partitions(TOPIC)
    assert paths == ["/inner/ws/binary"]


async def test_a_server_that_is_not_ready_is_asked_again() -> None:
    async with (
        refusing(HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.BAD_GATEWAY, HTTPStatus.NOT_FOUND) as (
            url,
            paths,
        ),
        Client(url, initial_backoff_ms=5) as client,
    ):
        with pytest.raises(errors.HandshakeError, match="404"):
            await client.partitions(TOPIC)
        assert len(paths) == 3


async def test_text_messages_end_the_connection() -> None:
    async def say(socket: ServerConnection) -> None:
        await socket.send("hello")
        await socket.wait_closed()
        codes.append(socket.close_code)

    codes: list[int | None] = []
    async with serve(say, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Client(f"ws://127.0.0.1:{port}") as client:
            with pytest.raises(errors.ConnectError, match="text, but the protocol is binary") as said:
                await client.connection_for(TOPIC)
            assert "did not answer" not in str(said.value)
        await until(lambda: codes, "the close")
    assert codes == [1003]


async def test_why_a_websocket_was_closed_reaches_the_consumers() -> None:
    async with ScriptedPeer.started(websocket=True) as peer, Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        lost: list[errors.VelaError] = []

        class Listening(Sink):
            def on_connection_lost(self, connection: Connection, error: errors.VelaError) -> None:
                lost.append(error)

        connection.consumers[1] = Listening()
        assert peer.link.websocket is not None
        await peer.link.websocket.close(1008, "too slow")
        await until(lambda: lost, "the loss")
        assert "1008 too slow" in str(lost[0])
