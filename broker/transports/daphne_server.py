"""Daphne, built in code and run inside the broker's event loop (design 3)."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from twisted.internet import reactor
from twisted.internet.error import CannotListenError
from twisted.logger import ILogObserver, globalLogBeginner
from twisted.web.http import HTTPChannel

from broker.transports.daphne_protocol import FlowControlledFactory, FlowControlledProtocol
from broker.transports.inbound_queue import InboundQueue
from broker.transports.pull_channel import PullChannel
from broker.transports.web_socket import EXTENSION

if TYPE_CHECKING:
    from broker.transports.pull_answers import PullAnswers
    from broker.transports.web_socket import Receive, Scope, Send

__all__ = ["DaphneServer"]

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 1024 * 1024
HANDSHAKE_TIMEOUT_S: Final = 20
PING_PERIOD_S: Final = 30
PING_TIMEOUT_S: Final = 60
TOO_LARGE: Final = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Request(WebRequest):  # type: ignore[misc]  # Daphne has no types
    """An HTTP request whose body cannot fill the disk."""

    _body_bytes = 0

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        self._body_bytes += len(data)
        if self._body_bytes > MAX_BODY_BYTES:
            self.channel.transport.write(TOO_LARGE)
            self.channel.loseConnection()
            return
        super().handleContentChunk(data)


class _HttpFactory(HTTPFactory):  # type: ignore[misc]  # Daphne has no types
    def __init__(self, server: DaphneServer, pulls: PullAnswers | None) -> None:
        super().__init__(server)
        self.protocol = HTTPChannel if pulls is None else PullChannel
        self.pulls = pulls

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = _Request
        return protocol


class DaphneServer(Server):  # type: ignore[misc]  # Daphne has no types
    """Serves an ASGI application, and pulls below it, between `listen` and `stop`. Its caller runs the reactor."""

    def __init__(
        self,
        application: Callable[[Scope, Receive, Send], Awaitable[None]],
        pulls: PullAnswers | None = None,
        *,
        max_message_bytes: int,
    ) -> None:
        super().__init__(
            application,
            endpoints=["in code"],
            signal_handlers=False,
            websocket_timeout=-1,
            websocket_connect_timeout=HANDSHAKE_TIMEOUT_S,
            websocket_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ping_interval=PING_PERIOD_S,
            ping_timeout=PING_TIMEOUT_S,
            server_name="Vela",
        )
        self.max_message_bytes = max_message_bytes
        self.pulls = pulls
        self.connections: dict[Any, dict[str, Any]] = {}
        self.is_stopping = False  # nothing is read any more, whoever asks
        self._port: Any = None

    def listen(self, host: str, port: int) -> None:
        """Begin to accept. Raises OSError when the address is taken or not ours."""
        self.http_factory = _HttpFactory(self, self.pulls)
        self.ws_factory = FlowControlledFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            utf8validateIncoming=False,  # decoding the message checks it, at a tenth of the cost
            failByDrop=False,  # a peer is told why: 1009, 1002
        )
        _silence_twisted()
        try:
            self._port = _reactor().listenTCP(port, self.http_factory, interface=host)
        except CannotListenError as error:
            raise OSError(str(error.socketError)) from error
        _reactor().callLater(1, self.application_checker)
        _reactor().callLater(2, self.timeout_checker)

    @property
    def port(self) -> int:
        """The port listened on; after `listen`."""
        return cast(int, self._port.getHost().port)

    async def stop_accepting(self) -> None:
        """Take no more connections."""
        if self._port is not None:
            closing = self._port.stopListening()
            if closing is not None:
                await closing.asFuture(asyncio.get_running_loop())

    def pause_reading(self) -> None:
        """Take nothing more from any WebSocket, for good."""
        self.is_stopping = True
        for protocol in self.connections:
            if isinstance(protocol, FlowControlledProtocol):
                protocol.pause_reading()

    async def stop(self, timeout_s: float = 1.0) -> None:
        """Close every WebSocket with 1001, wait for the handlers, cancel those that take too long."""
        await self.stop_accepting()
        running: list[asyncio.Future[None]] = []
        for protocol, details in list(self.connections.items()):
            if isinstance(protocol, FlowControlledProtocol):
                protocol.finish()
            instance = details.get("application_instance")
            if instance is not None and not instance.done():
                running.append(instance)
        if self.pulls is not None:
            await self.pulls.stop(timeout_s)
        if running:
            _, late = await asyncio.wait(running, timeout=timeout_s)
            for instance in late:
                instance.cancel()
            if late:
                await asyncio.wait(late, timeout=timeout_s)

    def protocol_disconnected(self, protocol: Any) -> None:
        """Daphne's, for a connection that may have been reaped after its refusal."""
        if protocol in self.connections:
            super().protocol_disconnected(protocol)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """Start the handler of a connection; a WebSocket's gets a bounded queue and the socket itself."""
        queue: asyncio.Queue[Mapping[str, Any]] | InboundQueue
        if isinstance(protocol, FlowControlledProtocol):
            queue = InboundQueue(pause=protocol.pause_reading, resume=protocol.resume_reading)
            scope["extensions"] = {"websocket.http.response": {}, EXTENSION: protocol}
        else:
            queue = asyncio.Queue()
        scope.setdefault("asgi", {"version": "3.0"})
        if protocol not in self.connections:
            return None
        instance = asyncio.get_running_loop().create_task(
            self.application(scope, queue.get, functools.partial(self.handle_reply, protocol))
        )
        self.connections[protocol]["application_instance"] = instance
        return queue

    async def handle_reply(self, protocol: Any, message: Mapping[str, Any]) -> None:
        """ASGI's `send`: waits while the peer does not take what was sent before."""
        await super().handle_reply(protocol, message)
        if isinstance(protocol, FlowControlledProtocol):
            await protocol.drained()


def _reactor() -> Any:
    return reactor  # Twisted puts the installed one in the module's place; it has no useful type


@functools.cache
def _silence_twisted() -> None:
    """Twisted's own log goes nowhere, as Daphne does; what matters here is logged by this package."""
    nowhere = cast(ILogObserver, lambda _: None)
    globalLogBeginner.beginLoggingTo([nowhere], redirectStandardIO=False, discardBuffer=True)
