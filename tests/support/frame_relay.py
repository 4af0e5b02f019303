"""A relay that reads Pulsar's frames between a client and a real broker, over TCP or binary WebSocket messages.

    async with frame_relay(vela, "websocket") as relay:
        relay.to_client = lambda frame: [] if is_pong(frame) else [frame]
        client = Client(relay.service_url)
        …
        assert relay.count(events.Flow) == 1
        await relay.cut()

The relay puts its own address into the answers to lookups, so that the client uses one connection for lookups and
topics, as it does with a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from websockets.asyncio.client import connect as connect_websocket
from websockets.asyncio.connection import Connection as WebSocket
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from broker.doors.binary.wire import events
from broker.doors.binary.wire.decoding import decode_event
from tests.support.vela import VelaProcess
from vela.wire.binary.fields import parse_command
from vela.wire.binary.frames import Frame, FrameDecoder, payload_frame_head
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["Frame", "FrameRelay", "Hook", "frame_relay"]

MAX_FRAME_BYTES = 64 * 1024 * 1024
REFUSED_STATUS = 503

Hook = Callable[[Frame], Sequence[Frame]]
"""Takes a frame, and returns the frames to pass on instead. There may be none."""
E = TypeVar("E", bound=events.Event)


def as_it_is(frame: Frame) -> Sequence[Frame]:
    """The hook that changes nothing."""
    return (frame,)


class End(Protocol):
    """One side of a link."""

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the bytes until the connection closes or breaks."""

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises OSError or ConnectionClosed when the connection has ended."""

    async def close(self) -> None:
        """Send everything that is buffered, then close the connection."""

    def abort(self) -> None:
        """Break the connection at once."""


class FrameRelay:
    """Records frames and passes them on through hooks, which may be set at any time.

    A link is one connection of a client, together with the relay's own connection to the broker for it.
    """

    def __init__(self) -> None:
        self.service_url = ""
        """The URL for the client."""
        self.to_broker: Hook = as_it_is
        self.to_client: Hook = as_it_is
        self.flows_to_broker = asyncio.Event()
        """While this event is cleared, frames to the broker wait, in order."""
        self.flows_to_client = asyncio.Event()
        """While this event is cleared, frames to the client wait, in order."""
        self.sent: list[events.Event] = []
        """The client's commands over all links, in order, before hooks change them."""
        self.attempts = 0
        """How often a client tried to connect, admitted or not."""
        self.connections = 0
        """How many links there have been."""
        self.is_admitting = True
        """Whether a client that connects is admitted; otherwise it is rejected at once."""
        self.failure: Exception | None = None
        """The error that a hook raised. `frame_relay` raises it at the end."""
        self._links: dict[asyncio.Task[None], tuple[End, End]] = {}
        self.flows_to_broker.set()
        self.flows_to_client.set()

    @property
    def open_connections(self) -> int:
        """How many links there are now."""
        return len(self._links)

    def of(self, kind: type[E]) -> list[E]:
        """Return the client's commands of this kind."""
        return [event for event in self.sent if isinstance(event, kind)]

    def count(self, kind: type[events.Event]) -> int:
        """Return how many commands of this kind the client sent."""
        return sum(isinstance(event, kind) for event in self.sent)

    async def cut(self) -> None:
        """Break every link, and return when both of its sides have ended."""
        links = dict(self._links)
        for ends in links.values():
            for end in ends:
                end.abort()
        if links:
            await asyncio.wait(links)

    async def relay(self, client: End, broker: End) -> None:
        """Serve one link until one of its sides ends."""
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = (client, broker)
        self.connections += 1
        pumps = [
            asyncio.create_task(self._pump(client, broker, self._from_client, self.flows_to_broker)),
            asyncio.create_task(self._pump(broker, client, self._from_broker, self.flows_to_client)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            with contextlib.suppress(OSError, ConnectionClosed):
                await asyncio.gather(client.close(), broker.close())
            del self._links[task]

    def _from_client(self, frame: Frame) -> Sequence[Frame]:
        self.sent.append(decode_event(parse_command(frame.command), frame))
        return self.to_broker(frame)

    def _from_broker(self, frame: Frame) -> Sequence[Frame]:
        command = parse_command(frame.command)
        if command.type == BaseCommand.LOOKUP_RESPONSE and self.service_url.startswith("pulsar:"):
            command.lookupTopicResponse.brokerServiceUrl = self.service_url
            frame = Frame(command.SerializeToString(), frame.payload)
        return self.to_client(frame)

    async def _pump(self, source: End, target: End, hook: Hook, flows: asyncio.Event) -> None:
        decoder = FrameDecoder(MAX_FRAME_BYTES)
        try:
            async for piece in source.pieces():
                for frame in decoder.feed(piece):
                    await flows.wait()
                    for changed in hook(frame):
                        payload = changed.payload or b""
                        await target.send(payload_frame_head(changed.command, len(payload)) + payload)
        except (OSError, ConnectionClosed):
            pass
        except Exception as error:
            self.failure = self.failure or error


class TcpEnd:
    """An `End` that is a TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the bytes until the connection closes. Raises OSError if it breaks."""
        while piece := await self._reader.read(1 << 18):
            yield piece

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises OSError when the connection has ended."""
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """Send everything that is buffered, then close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    def abort(self) -> None:
        """Break the connection at once."""
        self._writer.transport.abort()


class WebSocketEnd:
    """An `End` that is a WebSocket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content of binary messages until the connection closes or breaks."""
        async for piece in self._socket:
            assert isinstance(piece, bytes), "the protocol is binary"
            yield piece

    async def send(self, data: bytes) -> None:
        """Send bytes as one binary message. Raises ConnectionClosed when the connection has ended."""
        await self._socket.send(data)

    async def close(self) -> None:
        """Send everything that is buffered, then close the connection."""
        await self._socket.close()

    def abort(self) -> None:
        """Break the connection at once."""
        self._socket.transport.abort()


@asynccontextmanager
async def frame_relay(vela: VelaProcess, transport: str) -> AsyncIterator[FrameRelay]:
    """Run a relay to this Vela; `transport` is "tcp" or "websocket". At the end every link is cut."""
    relay = FrameRelay()
    listen = _listen_websocket if transport == "websocket" else _listen_tcp
    stop = await listen(relay, vela)
    try:
        yield relay
    finally:
        relay.is_admitting = False
        await relay.cut()
        await stop()
    if relay.failure is not None:
        raise relay.failure


async def _listen_tcp(relay: FrameRelay, vela: VelaProcess) -> Callable[[], Awaitable[None]]:
    door = urlsplit(vela.pulsar_url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.attempts += 1
        if not relay.is_admitting:
            writer.transport.abort()
            return
        inner = await asyncio.open_connection(door.hostname, door.port)
        await relay.relay(TcpEnd(reader, writer), TcpEnd(*inner))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    relay.service_url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def stop() -> None:
        server.close()
        await server.wait_closed()

    return stop


async def _listen_websocket(relay: FrameRelay, vela: VelaProcess) -> Callable[[], Awaitable[None]]:
    def admit(socket: ServerConnection, request: Request) -> Response | None:
        relay.attempts += 1
        return None if relay.is_admitting else socket.respond(REFUSED_STATUS, "turned away by the relay")

    async def serve(socket: ServerConnection) -> None:
        assert socket.request is not None
        url = vela.websocket_url + socket.request.path
        async with connect_websocket(url, compression=None, max_size=None, ping_interval=None) as inner:
            await relay.relay(WebSocketEnd(socket), WebSocketEnd(inner))

    server = await serve_websocket(
        serve,
        "127.0.0.1",
        0,
        process_request=admit,
        compression=None,
        max_size=None,
        ping_interval=None,
    )
    relay.service_url = f"ws://127.0.0.1:{server.server.sockets[0].getsockname()[1]}"

    async def stop() -> None:
        server.close()
        await server.wait_closed()

    return stop
