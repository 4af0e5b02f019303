"""A scripted broker inside the test's event loop: it answers as its scripts say, right or wrong.

    async with ScriptedPeer.started() as peer:
        peer.on(events.Subscribe, lambda link, event: link.engine.send_error(event.request_id, …))
        client = Client(peer.url)
        …
        assert peer.count(events.Lookup) == 1

The peer answers a command without a script as a broker with nothing to deliver would. It sends what a script writes to
`link.engine` when the script returns. Outside a script, call `link.flush()`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from broker.log.sends import Receipt
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.errors import RemoteProtocolError
from vela.wire.message_id import EARLIEST

__all__ = ["LEDGER_ID", "Link", "ScriptedPeer", "silent"]

LEDGER_ID = 77  # of every message that the peer stores or delivers
MAX_MESSAGE_BYTES = 1_000_000

E = TypeVar("E", bound=events.Event)
Script = Callable[["Link", Any], None]


class Link:
    """One client's connection."""

    def __init__(
        self,
        engine: ServerEngine,
        write: Callable[[bytes | tuple[bytes, ...]], None],
        drop: Callable[[], None],
        stop_reading: Callable[[], None],
    ) -> None:
        self.engine = engine
        self.heard: list[events.Event] = []
        """The commands that arrived over this link."""
        self.websocket: ServerConnection | None = None
        """The WebSocket of this link; None over TCP."""
        self.is_open = True
        self.stored = 0
        """How many SENDs the default script answered."""
        self._write = write
        self._drop = drop
        self.stop_reading = stop_reading
        """Stops the reading from the socket for good, so that the client's buffers fill."""

    def flush(self) -> None:
        """Send what the engine holds."""
        if data := b"".join(self.engine.data_to_send()):
            self._write(data)

    def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.flush()
        self._write(data)

    def fragments(self, *pieces: bytes) -> None:
        """Send bytes in pieces; over WebSocket as the fragments of one message."""
        self.flush()
        self._write(pieces)

    def drop(self) -> None:
        """Break the connection."""
        self.is_open = False
        self._drop()

    def deliver(self, consumer_id: int, entry: bytes, *, entry_id: int, **fields: Any) -> None:
        """Send a MESSAGE at once."""
        fields.setdefault("ledger_id", LEDGER_ID)
        self.engine.send_message(consumer_id, entry_id=entry_id, entry=entry, **fields)
        self.flush()


class ScriptedPeer:
    """Records what it received over all links, and answers by a script."""

    def __init__(self, *, websocket: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.links: list[Link] = []
        """All links, broken ones too, the oldest first."""
        self.heard: list[events.Event] = []
        """All commands, in the order of arrival."""
        self.is_listening = False
        self.max_message_bytes = MAX_MESSAGE_BYTES
        self.port = 0
        self._websocket = websocket
        self._tls = tls
        self._scripts: dict[type, Script] = {}
        self._server: Any = None

    @classmethod
    @asynccontextmanager
    async def started(
        cls, *, websocket: bool = False, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[ScriptedPeer]:
        """Run a peer, and drop all links at the end."""
        peer = cls(websocket=websocket, tls=tls)
        await peer.listen()
        try:
            yield peer
        finally:
            await peer.stop()

    @property
    def url(self) -> str:
        """The service URL for a client."""
        if self._websocket:
            return f"{'wss' if self._tls else 'ws'}://127.0.0.1:{self.port}"
        return f"{'pulsar+ssl' if self._tls else 'pulsar'}://127.0.0.1:{self.port}"

    @property
    def open_links(self) -> list[Link]:
        """The links that are not broken."""
        return [link for link in self.links if link.is_open]

    @property
    def link(self) -> Link:
        """The latest link."""
        return self.links[-1]

    def on(self, kind: type[E], script: Callable[[Link, E], None]) -> None:
        """Answer commands of this kind with this script instead of the default."""
        self._scripts[kind] = script

    def forget_script(self, kind: type[events.Event]) -> None:
        """Answer commands of this kind with the default again."""
        self._scripts.pop(kind, None)

    def count(self, kind: type[events.Event]) -> int:
        """Return how many commands of this kind arrived."""
        return len(self.of(kind))

    def of(self, kind: type[E]) -> list[E]:
        """Return the commands of this kind."""
        return [event for event in self.heard if isinstance(event, kind)]

    async def listen(self) -> None:
        """Accept connections, on the same port as before a `stop`."""
        if self._websocket:
            server = await serve_websocket(
                self._serve_websocket, "127.0.0.1", self.port, ssl=self._tls, compression=None, max_size=None
            )
            self._server, sockets = server, server.server.sockets
        else:
            plain = await asyncio.start_server(self._serve_tcp, "127.0.0.1", self.port, ssl=self._tls)
            self._server, sockets = plain, plain.sockets
        self.port = sockets[0].getsockname()[1]
        self.is_listening = True

    async def stop(self) -> None:
        """Drop all links and accept no more connections."""
        self.is_listening = False
        self._server.close()
        for link in self.open_links:
            link.drop()
        await self._server.wait_closed()

    def _new_link(
        self, write: Callable[[bytes | tuple[bytes, ...]], None], transport: asyncio.Transport
    ) -> Link:
        engine = ServerEngine(server_version="Scripted", max_message_bytes=self.max_message_bytes)
        link = Link(engine, write, transport.abort, transport.pause_reading)
        self.links.append(link)
        return link

    def _hear(self, link: Link, data: bytes) -> None:
        try:
            heard = list(link.engine.receive(data))
        except RemoteProtocolError as error:
            raise AssertionError(f"the client broke the protocol: {error}") from error
        for event in heard:
            link.heard.append(event)
            self.heard.append(event)
            script = self._scripts.get(type(event))
            if script is not None:
                script(link, event)
            else:
                self.answer(link, event)
        if link.is_open:
            link.flush()

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def write(data: bytes | tuple[bytes, ...]) -> None:
            writer.write(data if isinstance(data, bytes) else b"".join(data))

        assert isinstance(writer.transport, asyncio.Transport)
        link = self._new_link(write, writer.transport)
        try:
            while data := await reader.read(1 << 18):
                self._hear(link, data)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            link.is_open = False
            writer.close()

    async def _serve_websocket(self, socket: ServerConnection) -> None:
        unsent: asyncio.Queue[bytes | tuple[bytes, ...]] = asyncio.Queue()

        async def send() -> None:
            while True:
                await socket.send(await unsent.get())

        link = self._new_link(unsent.put_nowait, socket.transport)
        link.websocket = socket
        sender = asyncio.create_task(send())
        try:
            async for data in socket:
                assert isinstance(data, bytes), "the protocol is binary"
                if len(data) > self.max_message_bytes + FRAME_PADDING_BYTES:  # the limit of `/ws/binary`
                    await socket.close(CloseCode.MESSAGE_TOO_BIG)
                    break
                self._hear(link, data)
        except ConnectionClosed:
            pass
        finally:
            link.is_open = False
            sender.cancel()

    def answer(self, link: Link, event: events.Event) -> None:
        """Answer like a broker with nothing to deliver. Scripts may call this."""
        engine = link.engine
        match event:
            case events.Connect():
                engine.send_connected()
            case events.Ping():
                engine.send_pong()
            case events.PartitionMetadata():
                engine.send_partition_metadata(event.request_id, 0)
            case events.Lookup():
                engine.send_lookup(event.request_id, url=f"pulsar://127.0.0.1:{self.port}")
            case events.OpenProducer():
                engine.send_producer_success(event.request_id, name=event.producer_name or "made-by-broker")
            case events.Send():
                highest = event.highest_sequence_id or 0
                receipt = Receipt(event.sequence_id, highest, LEDGER_ID, link.stored, 0)
                engine.send_receipts(event.producer_id, [receipt])
                link.stored += 1
            case events.Ack():
                if event.request_id is not None:
                    engine.send_ack_response(event.consumer_id, event.request_id)
            case events.GetLastMessageId():
                engine.send_last_message_id(event.request_id, last=EARLIEST, mark_delete=EARLIEST)
            case events.GetTopicsOfNamespace():
                engine.send_topics_of_namespace(
                    event.request_id, [], is_filtered=False, known_hash=event.topics_hash
                )
            case events.GetOrCreateSchema():
                engine.send_schema_version(event.request_id, bytes(8))
            case (
                events.Subscribe()
                | events.CloseProducer()
                | events.CloseConsumer()
                | events.Unsubscribe()
                | events.Seek()
            ):
                engine.send_success(event.request_id)
            case events.Unsupported():
                engine.send_unsupported(event, "not in this test")
            case events.Flow() | events.Redeliver() | events.Pong() | events.AuthResponse():
                pass
            case _:
                raise AssertionError(f"the script has no answer to {event}")


def silent(_link: Link, _event: events.Event) -> None:
    """A script that answers nothing."""
