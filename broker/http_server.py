"""Daphne with limits on the size and duration of requests.

Stock Daphne writes a request body of any length to disk and keeps a slow request open forever.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server, twisted_loop
from daphne.ws_protocol import WebSocketFactory
from twisted.internet import reactor, tcp
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import connectionDone
from twisted.logger import ILogObserver, globalLogBeginner
from twisted.web.http import HTTPChannel
from twisted.web.http_headers import Headers

from broker.core.errors import TooManyConnections, TooManyRequests
from broker.listening.tls_listener import TlsListener
from broker.listening.twisted_transport import TwistedTransport

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate
    from broker.door_settings import DoorSettings
    from broker.listening.connection_limits import ConnectionLimits, ConnectionPlace
    from broker.listening.loop_time import TimeShare
    from broker.listening.tls_certificates import TlsCertificates

__all__ = ["MAX_BODY_BYTES", "LimitedConnection", "LimitedServer"]

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_UNFINISHED_REQUESTS: Final = 500
# Some proxies send a whole URL as the request target, which RFC 9112 allows.
_ABSOLUTE_TARGET: Final = re.compile(rb"(?i:https?)://([^/?]*)(.*)", re.DOTALL)
_SPELLED: Final = b"X-Pulsar-PROPERTY"  # Pulsar's Java admin client ignores any other spelling
# Closing immediately after a refusal could lose the answer.
LINGER_S: Final = 1.0


class _SpelledHeaders(Headers):
    """Headers that keep the spelling X-Pulsar-PROPERTY, which Twisted would change."""

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:  # noqa: N802 - Twisted's name
        for name, values in super().getAllRawHeaders():
            yield _SPELLED if name.lower() == _SPELLED.lower() else name, values


class LimitedConnection(HTTPChannel):
    """An HTTP connection that refuses large or slow requests."""

    factory: Any
    transport: Any
    share: TimeShare

    def __init__(self) -> None:
        super().__init__()
        self._deadline: Any = None
        self._abort: Any = None
        self._is_refused = False

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        self.share = self.factory.limits.loop_time.share()
        super().connectionMade()
        if self.isSecure():
            return  # The connection was counted before the TLS handshake
        try:
            self.transport.place = self.factory.limits.admit(self.transport.getPeer().host)
        except TooManyConnections as error:
            self.refuse(503, str(error))
            self.transport.loseConnection()

    def isSecure(self) -> bool:  # noqa: N802 - Twisted's name
        return bool(self.transport.is_secure)

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client's verified certificate."""
        certificate: ClientCertificate | None = self.transport.certificate
        return certificate

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        if not self._is_refused:
            super().dataReceived(data)
            self._watch()

    def requestDone(self, request: Any) -> None:  # noqa: N802 - Twisted's name
        super().requestDone(request)
        # The next request may have begun to arrive.
        self._watch()

    def allHeadersReceived(self) -> None:  # noqa: N802 - Twisted's name
        try:
            self.count_request()
        except TooManyRequests as error:
            self.refuse(429, str(error))
            return
        if self.length is not None and self.length > MAX_BODY_BYTES:
            self.refuse_body()
        else:
            super().allHeadersReceived()

    def count_request(self) -> None:
        """Count a request whose headers have arrived. Raises TooManyRequests above a limit."""
        client = self.transport.getPeer()
        self.factory.limits.rates.check_request(f"{client.host}:{client.port}")

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802 - Twisted's name
        """Refuse with a reason. Twisted would send no reason."""
        if not self._is_refused:
            self.refuse(
                400,
                "these bytes are not an HTTP/1.1 request. Its first line has a method, a path of printable ASCII"
                f" characters without spaces, and HTTP/1.1. At most {self.maxHeaders} headers with a colon follow, in"
                f" {self.totalHeadersSize} bytes. A body is chunked or has one Content-Length.",
            )

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802 - Twisted's name
        self._respondToBadRequestAndDisconnect()

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 - Twisted's name
        """Ignore lines after a refusal. Twisted would answer a second time."""
        if not self._is_refused:
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        if not self._is_refused:
            super().rawDataReceived(data)

    def allContentReceived(self) -> None:  # noqa: N802 - Twisted's name
        if not self._is_refused:
            self.request_arrived()
            super().allContentReceived()

    def request_arrived(self) -> None:
        """Stop the timer for the arrival of a request. Safe to repeat."""
        if self._deadline is not None:
            if self._deadline.active():
                self._deadline.cancel()
            self._deadline = None
            del self.factory.unfinished[self]

    def refuse_body(self) -> None:
        """Refuse a body above the size limit."""
        self.refuse(413, f"a request body may have {MAX_BODY_BYTES} bytes at most: send less")

    def refuse(self, status: int, reason: str) -> None:
        """Send an error and close the connection. Safe to repeat."""
        if self._is_refused:
            return
        self._is_refused = True
        self.request_arrived()
        self.setTimeout(None)
        body = json.dumps({"reason": reason}).encode()
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        self.transport.unregisterProducer()
        self.transport.write(head % (status, HTTPStatus(status).phrase.encode(), len(body)) + body)
        self.transport.loseWriteConnection()
        self._abort = self.callLater(LINGER_S, self._drop)

    def writeHeaders(  # noqa: N802 - Twisted's name
        self, version: bytes, code: bytes, reason: bytes, headers: Headers
    ) -> None:
        if headers.hasHeader(_SPELLED):
            headers = _SpelledHeaders(dict(headers.getAllRawHeaders()))
        super().writeHeaders(version, code, reason, headers)

    def connectionLost(self, reason: Any = connectionDone) -> None:  # noqa: N802 - Twisted's name
        self.request_arrived()
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None
        super().connectionLost(reason)

    def _watch(self) -> None:
        is_unfinished = not self._handlingRequest and (self.requests or self._buffer)
        if not is_unfinished or self._deadline is not None or self._is_refused:
            return
        unfinished: dict[LimitedConnection, None] = self.factory.unfinished
        self._deadline = self.callLater(self.factory.request_timeout_s, self._too_slow)
        unfinished[self] = None
        if len(unfinished) > MAX_UNFINISHED_REQUESTS:
            next(iter(unfinished)).refuse(503, "too many requests are unfinished: try again")

    def _too_slow(self) -> None:
        self.refuse(
            408,
            f"the request did not arrive whole within {self.factory.request_timeout_s:g} s: send it again",
        )

    def _drop(self) -> None:
        self._abort = None
        self.transport.abortConnection()


class _LimitedRequest(WebRequest):  # type: ignore[misc]  # Daphne has no types
    """A request with a limited body. A chunked body announces no length and could fill the disk."""

    _body_bytes = 0

    def __init__(self, *args: Any) -> None:
        # If Twisted parsed forms, its answer to a broken form would give no reason.
        super().__init__(*args, parsePOSTFormSubmission=False)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802 - Twisted's name
        absolute = _ABSOLUTE_TARGET.fullmatch(path)
        if absolute is not None:
            host, path = absolute.groups()
            path = path if path.startswith(b"/") else b"/" + path
            named = len(self.requestHeaders.getRawHeaders(b"Host", ()))
            # If the number of Host headers is wrong, a later check refuses the request.
            if named == 1 or (named == 0 and version == b"HTTP/1.0"):
                self.requestHeaders.setRawHeaders(b"Host", [host])
        super().requestReceived(command, path, version)

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Refuse with JSON. Daphne would send HTML."""
        reason = json.dumps({"reason": body}).encode()
        headers = [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(reason))]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": reason})

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        self._body_bytes += len(data)
        if self._body_bytes <= MAX_BODY_BYTES:
            super().handleContentChunk(data)
        else:
            self.channel.refuse_body()


class _PlainTransport(tcp.Server):
    is_secure = False
    certificate: ClientCertificate | None = None
    place: ConnectionPlace | None = None

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        if self.place is not None:
            self.place.leave()
        super().connectionLost(reason)


class _PlainPort(tcp.Port):
    transport = _PlainTransport


class _LimitedFactory(HTTPFactory):  # type: ignore[misc]  # Daphne has no types
    def __init__(self, server: LimitedServer) -> None:
        super().__init__(server)
        self.timeOut = server.settings.http_idle_timeout_s
        self.protocol = server.connection_class
        self.limits = server.limits
        self.request_timeout_s = server.settings.http_request_timeout_s
        self.unfinished: dict[LimitedConnection, None] = {}  # Oldest first

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = _LimitedRequest
        return protocol


class LimitedServer(Server):  # type: ignore[misc]  # Daphne has no types
    """A Daphne server that limits its connections and requests."""

    connection_class: type[LimitedConnection] = LimitedConnection

    def __init__(
        self,
        application: Callable[..., Awaitable[None]],
        *,
        settings: DoorSettings,
        limits: ConnectionLimits,
        **options: Any,
    ) -> None:
        super().__init__(application, endpoints=["in code"], **options)
        self.settings = settings
        self.limits = limits
        self.connections: dict[Any, dict[str, Any]] = {}
        self._port: Any = None
        self._tls: TlsListener | None = None
        _silence_twisted()
        self.http_factory = _LimitedFactory(self)
        self.ws_factory = self.websocket_factory()
        _reactor().callLater(1, self.application_checker)
        _reactor().callLater(2, self.timeout_checker)

    def listen(self, host: str, port: int) -> None:
        """Listen without TLS. Raises OSError if the address cannot be used."""
        self._port = _PlainPort(port, self.http_factory, interface=host, reactor=_reactor())
        try:
            self._port.startListening()
        except CannotListenError as error:
            self._port = None
            raise cast(OSError, error.socketError) from None

    async def listen_tls(self, host: str, port: int, certificates: TlsCertificates) -> int:
        """Listen with TLS and return the port. Raises OSError if the address cannot be used."""
        self._tls = TlsListener(
            lambda: TwistedTransport(self.http_factory.buildProtocol),
            certificates,
            self.limits,
            handshake_timeout_s=self.settings.handshake_timeout_s,
        )
        await self._tls.start(host, port)
        return self._tls.port

    @property
    def port(self) -> int:
        """The port that `listen` opened."""
        return cast(int, self._port.getHost().port)

    async def stop_accepting(self) -> None:
        """Stop accepting connections. Safe to repeat."""
        if self._tls is not None:
            self._tls.stop_accepting()
        if self._port is not None:
            closing = self._port.stopListening()
            if closing is not None:
                await closing.asFuture(asyncio.get_running_loop())

    def websocket_factory(self) -> Any:
        """Return the factory for WebSocket connections."""
        factory = WebSocketFactory(self, server=self.server_name)
        factory.setProtocolOptions(openHandshakeTimeout=self.websocket_handshake_timeout)
        return factory

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. The ports must be open already."""
        asyncio.set_event_loop(twisted_loop)
        _reactor().addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        _reactor().run()

    def kill_all_applications(self) -> Any:
        """Cancel running applications. Daphne's method fails if a connection has no request yet."""
        self.connections = {
            protocol: details
            for protocol, details in self.connections.items()
            if "application_instance" in details
        }
        return super().kill_all_applications()


def _reactor() -> Any:
    return reactor


@functools.cache
def _silence_twisted() -> None:
    nowhere = cast(ILogObserver, lambda _: None)
    globalLogBeginner.beginLoggingTo([nowhere], redirectStandardIO=False, discardBuffer=True)
