"""A URL with TLS for a port without TLS, or the reverse: both clients soon raise an error that names the cause.

Servers differ in what they do with the wrong first bytes: they answer, hang up, or wait for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import vela
import vela.aio
from tests.support.certificates import Authority, KeyPair
from tests.support.scripted_peer import ScriptedPeer
from tests.support.waiting import until
from tests.support.wrong_urls import ClientClass, refusal
from vela import errors
from vela.aio.connections import opening, other_door
from vela.authentication import AuthenticationToken

TOPIC = "persistent://public/default/t"
SECRET = "a-token-that-is-secret"
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return Authority(tmp_path_factory.mktemp("authority")).issue("server", "127.0.0.1")


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make clients wait only briefly for an answer, because the peers in these tests answer at once."""
    monkeypatch.setattr(opening, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(other_door, "_ANSWER_S", 0.3)


class Heard:
    """The bytes that arrived at a port, over all connections."""

    def __init__(self) -> None:
        self.first: list[bytes] = []
        """First bytes of each connection."""
        self.port = 0

    def begun(self, beginning: bytes) -> int:
        return sum(each.startswith(beginning) for each in self.first)


@asynccontextmanager
async def waits_for_lines(answer: bytes) -> AsyncIterator[Heard]:
    """An HTTP server that waits for the complete head of a request before it answers, whatever else arrives."""
    heard = Heard()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        while data := await reader.read(1000):
            if not head:
                heard.first.append(data)
            head += data
            if head.endswith(b"\r\n\r\n"):
                writer.write(answer)
                head = b"-"
        writer.close()

    started = await asyncio.start_server(serve, "127.0.0.1", 0)
    heard.port = started.sockets[0].getsockname()[1]
    try:
        yield heard
    finally:
        started.close()


BOTH = pytest.mark.parametrize("kind", [vela.aio.Client, vela.Client], ids=["aio", "blocking"])


@BOTH
@pytest.mark.parametrize("scheme", ["pulsar+ssl", "wss"])
async def test_the_error_about_a_tcp_port_without_tls_names_the_right_scheme(
    kind: ClientClass, scheme: str
) -> None:
    async with ScriptedPeer.started() as peer:
        said = await refusal(kind, f"{scheme}://127.0.0.1:{peer.port}", AuthenticationToken(SECRET))
    assert f"127.0.0.1:{peer.port}" in said
    assert "does not speak TLS" in said
    assert "begins with pulsar://" in said


@BOTH
@pytest.mark.parametrize("scheme", ["pulsar+ssl", "wss"])
async def test_the_error_about_an_http_port_without_tls_names_the_right_scheme(
    kind: ClientClass, scheme: str
) -> None:
    async with ScriptedPeer.started(websocket=True) as peer:
        said = await refusal(kind, f"{scheme}://127.0.0.1:{peer.port}", AuthenticationToken(SECRET))
    assert "does not speak TLS" in said
    assert "begins with ws://" in said


@BOTH
@pytest.mark.parametrize(
    ("scheme", "answer"),
    [("wss", UPGRADED), ("pulsar+ssl", UPGRADED), ("wss", b"HTTP/1.1 404 Not Found\r\n\r\n")],
)
async def test_the_error_about_an_http_port_that_waits_for_more_names_the_right_scheme(
    kind: ClientClass, scheme: str, answer: bytes
) -> None:
    async with waits_for_lines(answer) as heard:
        said = await refusal(kind, f"{scheme}://127.0.0.1:{heard.port}", AuthenticationToken(SECRET))
    assert "does not speak TLS" in said
    assert "begins with ws://" in said
    assert not [each for each in heard.first if SECRET.encode() in each]


@BOTH
async def test_an_http_port_that_waits_for_more_is_not_taken_for_a_tcp_port(kind: ClientClass) -> None:
    async with waits_for_lines(b"HTTP/1.1 404 Not Found\r\n\r\n") as heard:
        said = await refusal(kind, f"pulsar://127.0.0.1:{heard.port}", AuthenticationToken(SECRET))
    assert "does not speak the protocol" in said
    assert "that is HTTP" in said


@BOTH
@pytest.mark.parametrize("websocket", [False, True], ids=["tcp door", "http door"])
@pytest.mark.parametrize("scheme", ["pulsar", "ws"])
async def test_the_error_about_a_port_with_tls_names_the_right_scheme(
    kind: ClientClass, scheme: str, websocket: bool, server: KeyPair
) -> None:
    async with ScriptedPeer.started(websocket=websocket, tls=server.server_context()) as peer:
        said = await refusal(kind, f"{scheme}://127.0.0.1:{peer.port}", AuthenticationToken(SECRET))
    assert "speaks TLS" in said
    assert ("begins with pulsar+ssl://" if scheme == "pulsar" else "begins with wss://") in said


@pytest.mark.parametrize("scheme", ["wss", "pulsar+ssl"])
async def test_a_port_that_requires_tls_for_http_too_is_not_mistaken_for_plain_http(scheme: str) -> None:
    """The port answers slowly over TLS. But a client that speaks plain HTTP learns at once that plain HTTP is wrong."""
    async with waits_for_lines(
        b"HTTP/1.1 400 The plain HTTP request was sent to HTTPS port\r\n\r\n"
    ) as heard:
        client = vela.aio.Client(f"{scheme}://127.0.0.1:{heard.port}", connection_timeout_ms=1000)
        async with client:
            with pytest.raises(errors.ConnectError, match="not connected within 1 s"):
                await client.connection_for(TOPIC)
        assert heard.begun(b"GET ")


async def test_a_url_that_was_right_once_is_not_doubted_again() -> None:
    async with ScriptedPeer.started() as peer, vela.aio.Client(peer.url, initial_backoff_ms=5) as client:
        producer = await client.create_producer(TOPIC)
        await peer.stop()
        async with silent(peer.port) as heard:
            await until(lambda: len(heard.first) >= 5, "attempts to connect again")
            assert heard.begun(b"\0") == len(heard.first)
        await peer.listen()
        assert isinstance(await producer.send(b"x"), vela.MessageId)


@asynccontextmanager
async def silent(port: int) -> AsyncIterator[Heard]:
    """A server that hangs up at the first bytes, without an answer."""
    heard = Heard()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.first.append(await reader.read(100))
        writer.close()

    started = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield heard
    finally:
        started.close()
