"""The binary protocol inside binary WebSocket messages: `/ws/binary`.

An asyncio protocol drives the protocol engine of `websockets` directly. Bytes go from the socket to the connection in
one call, without a task, queue or future for each message.
"""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from vela.aio.transports.byte_transport import ByteReceiver
from vela.aio.transports.tcp import connect_socket
from vela.core.first_words import speaks_something_else
from vela.core.service_url import BrokerAddress
from vela.errors import AuthenticationError, AuthorizationError, ConnectError, HandshakeError

__all__ = ["WebSocketTransport", "open_websocket"]

_MAX_MESSAGE_BYTES: Final = 320 * 1024 * 1024
"""Limit for a WebSocket message from the broker, which may contain many of Pulsar's frames.

A broker can be set to take entries of 256 MiB, and sends each of them in one WebSocket message.
"""
_MAX_SENT_BYTES: Final = 1024 * 1024
"""Limit for a WebSocket message to the broker, because the broker and proxies hold such a message in memory. A broker
that accepts only smaller messages announces that. A message may end anywhere in a frame.
"""
_CLOSE_TIMEOUT_S: Final = 2.0
_BEGINS_AS: Final = b"H"  # first byte of HTTP/1.1; the rest may come later
_SERVER_ERROR: Final = 500  # for this and higher HTTP statuses another attempt may succeed
_REFUSED: Final = {401: AuthenticationError, 403: AuthorizationError}
_IN_ORDER: Final = frozenset((CloseCode.NORMAL_CLOSURE, CloseCode.GOING_AWAY, CloseCode.NO_STATUS_RCVD))
_DATA: Final = frozenset((Opcode.BINARY, Opcode.CONT))


class WebSocketTransport(asyncio.Protocol):
    """A `ByteTransport` that is an asyncio protocol."""

    def __init__(self, address: BrokerAddress, receiver: ByteReceiver) -> None:
        self._receiver = receiver
        self._address = address
        self._engine = ClientProtocol(parse_uri(address.url), max_size=_MAX_MESSAGE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._is_heard = False  # True: at least one byte arrived
        self._broken: Exception | None = None  # the error if the broker broke the protocol
        self._closing: asyncio.TimerHandle | None = None
        self._max_sent_bytes = _MAX_SENT_BYTES
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()

    async def handshake(self) -> None:
        """Do the WebSocket handshake. Raises ConnectError, AuthenticationError, AuthorizationError, ssl.SSLError."""
        self._engine.send_request(self._engine.connect())
        self._send()
        await self._opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._receiver.on_reached()

    def data_received(self, data: bytes) -> None:
        if not self._is_heard:
            self._is_heard = True
            self._receiver.on_answered()
            if not data.startswith(_BEGINS_AS):
                # The engine would wait for a line end, which may never come.
                self._fail(HandshakeError(speaks_something_else(self._address.url, data, wanted="WebSocket")))
                self.abort()
                return
        engine = self._engine
        engine.receive_data(data)
        for event in engine.events_received():
            if isinstance(event, Frame):
                if event.opcode in _DATA:
                    self._receiver.on_bytes(
                        event.data if isinstance(event.data, bytes) else bytes(event.data)
                    )
                elif event.opcode is Opcode.TEXT:
                    self._broken = ConnectionError("it sent text, but the protocol is binary")
                    engine.fail(CloseCode.UNSUPPORTED_DATA, "binary messages only")
        if not self._opened.done() and (engine.state is not State.CONNECTING or engine.handshake_exc):
            self._answered()
        self._send()
        if engine.state is State.CLOSED or engine.close_expected():
            self._expect_end()

    def _answered(self) -> None:
        error = self._engine.handshake_exc
        if error is None:
            self._opened.set_result(None)
        else:
            self._fail(_refusal(self._address, error))

    def _fail(self, error: Exception) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # mark it as seen: asyncio must not log it if nobody awaits it

    def eof_received(self) -> None:
        self._engine.receive_eof()
        if isinstance(error := self._engine.handshake_exc, InvalidStatus):
            # A refusal without Content-Length ends when the server closes the connection. Servers without WebSockets do
            # this.
            status = error.response.status_code
            self._fail(
                HandshakeError(
                    f"{self._address.url} answers HTTP {status} and closes the connection: is it the broker's HTTP"
                    " port, not the console's, and is the path right?"
                )
            )
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._fail(exc if isinstance(exc, ssl.SSLError) else ConnectError(self._hung_up()))
        self._receiver.on_lost(exc or self._broken or self._reason())

    def _hung_up(self) -> str:
        """Return what may be wrong when the server closes before it answers the handshake."""
        text = f"{self._address.url} closed the connection instead of upgrading it: is this the HTTP port?"
        if self._address.tls and not self._is_heard:
            # A server that refuses a client's certificate says so after the client's part of the handshake. The client
            # may see the connection close before it has read the refusal.
            text += " Or does it require a client certificate?"
        return text

    def _reason(self) -> Exception | None:
        wrong, close = self._engine.parser_exc, self._engine.close_rcvd
        if wrong is not None and not isinstance(wrong, EOFError):
            return wrong
        if close is None or close.code in _IN_ORDER:
            return None
        return ConnectionError(f"closed with {int(close.code)} {close.reason}".rstrip())

    def write(self, data: bytes) -> None:
        """Send data, in several WebSocket messages if it is too large for one."""
        engine = self._engine
        if engine.state is not State.OPEN:
            return
        limit = self._max_sent_bytes
        if len(data) <= limit:
            engine.send_binary(data)
        else:
            for start in range(0, len(data), limit):
                engine.send_binary(data[start : start + limit])
        self._send()

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Send no larger WebSocket messages than this, because the broker refuses them."""
        self._max_sent_bytes = min(_MAX_SENT_BYTES, max_frame_bytes)

    def close(self) -> None:
        if self._engine.state is State.OPEN:
            self._engine.send_close(CloseCode.NORMAL_CLOSURE)
            self._send()
            self._expect_end()
        else:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send(self) -> None:
        transport = self._transport
        if transport is None:
            return
        for data in self._engine.data_to_send():
            if data:
                transport.write(data)
            elif transport.can_write_eof():  # b"" is the end of the stream; TLS cannot half-close
                transport.write_eof()
            else:
                transport.close()

    def _expect_end(self) -> None:
        """Wait for the server to close the TCP connection, and close it here after a while."""
        if self._closing is None:
            self._closing = self._loop.call_later(_CLOSE_TIMEOUT_S, self.abort)


def _refusal(address: BrokerAddress, error: Exception) -> Exception:
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        kind = _REFUSED.get(status, ConnectError if status >= _SERVER_ERROR else HandshakeError)
        advice = "is it Vela's address, and is the path right?"
        if status == HTTPStatus.MISDIRECTED_REQUEST:
            advice = "it does not answer to this host name; the broker's VELA_ALLOWED_HOSTS can add it"
        if status == HTTPStatus.BAD_REQUEST and not address.tls:
            advice += " If the port requires TLS, the URL begins with wss://"
        return kind(f"{address.url} answers HTTP {status}: {advice}")
    if isinstance(error, InvalidHandshake):
        return HandshakeError(f"{address.url} does not speak WebSocket: {error}")
    return ConnectError(f"{address.url}: {error}")


async def open_websocket(
    address: BrokerAddress, receiver: ByteReceiver, *, tls: ssl.SSLContext | None, no_delay: bool
) -> WebSocketTransport:
    """Connect, including the TLS and WebSocket handshakes.

    Raises OSError (such as ssl.SSLError), ConnectError, AuthenticationError, AuthorizationError.
    """
    transport = WebSocketTransport(address, receiver)
    try:
        await connect_socket(address, transport, tls=tls, no_delay=no_delay)
        await transport.handshake()
    except BaseException:
        transport.abort()
        raise
    return transport
