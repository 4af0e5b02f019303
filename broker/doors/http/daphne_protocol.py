"""Daphne's WebSocket protocol with flow control in both directions.

Daphne itself buffers without limit.
"""

from __future__ import annotations

import asyncio
import http
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer  # type: ignore[import-untyped]

from broker.doors.asgi import JSON, json_reason
from broker.doors.http.inbound_queue import InboundQueue
from broker.doors.http.whole_frames import whole_frame
from broker.doors.websocket.json.errors import close_reason
from vela.wire.entry import FRAME_PADDING_BYTES

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate

__all__ = ["FlowControlledFactory", "FlowControlledProtocol"]

HIGH_WATER_BYTES: Final = 1024 * 1024
FRAMES_AT_ONCE: Final = 8
STEPS_AT_ONCE: Final = 16
MAX_UNPARSED_BYTES: Final = 16 * 1024
BINARY_PATH: Final = b"/ws/binary"
PRODUCER_PREFIX: Final = b"/ws/v2/producer/"
COMMAND_MESSAGE_BYTES: Final = 1024 * 1024
ENVELOPE_BYTES: Final = 64 * 1024  # Room for everything in a JSON message except the payload

_SMALL: Final = struct.Struct("!BB")
_MEDIUM: Final = struct.Struct("!BBH")
_LARGE: Final = struct.Struct("!BBQ")


@implementer(IPushProducer)
class _Producer:
    def __init__(self, protocol: FlowControlledProtocol) -> None:
        self._protocol = protocol

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._protocol.output_paused()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._protocol.output_drained()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._protocol.output_drained()


class FlowControlledProtocol(WebSocketProtocol):  # type: ignore[misc]  # Daphne has no types
    """A WebSocket connection, which the application uses as a `FrameTransport`."""

    application_queue: InboundQueue
    autoPingTimeoutCall: Any  # noqa: N815 - Autobahn's names; None unless Daphne's ping waits for its pong
    autoPingPending: bytes | None  # noqa: N815
    data: bytes  # Unparsed bytes
    message_data: bytearray | None  # Received part of a message, or None between messages

    def __init__(self) -> None:
        super().__init__()
        self._is_output_paused = False
        self._unsent_bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self._on_writable: list[Callable[[], None]] = []
        self._probes: list[asyncio.Future[bool]] = []
        self._unanswered_ping: bytes | None = None
        self._refusal: Mapping[str, Any] | None = None
        self._is_reading_paused = False
        self._is_out_of_turn = False
        self._is_finishing = False

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        self.share = self.factory.server_class.limits.loop_time.share()
        super().connectionMade()

    def onConnect(self, request: Any) -> Any:  # noqa: N802 - Autobahn's name
        self.transport.unregisterProducer()
        self.transport.registerProducer(_Producer(self), True)
        limit = self._message_limit(request.path.encode("ascii"))
        self.maxMessagePayloadSize = self.maxFramePayloadSize = limit
        return super().onConnect(request)

    def _message_limit(self, path: bytes) -> int:
        largest: int = self.factory.server_class.max_message_bytes
        if path == BINARY_PATH:
            return largest + FRAME_PADDING_BYTES
        if path.startswith(PRODUCER_PREFIX):
            return largest * 4 // 3 + ENVELOPE_BYTES
        return COMMAND_MESSAGE_BYTES

    def handle_reply(self, message: Mapping[str, Any]) -> None:
        """Handle an ASGI event. Daphne's own method ignores accept headers, close reasons and refusal statuses."""
        match message["type"]:
            case "websocket.http.response.start":
                self._refusal = message
            case "websocket.http.response.body":
                self._refuse(message.get("body", b""))
            case "websocket.accept" if message.get("headers"):
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                self.serverAccept((message.get("subprotocol"), headers))
            case "websocket.close" if self.state != self.STATE_CONNECTING:
                self.close(message.get("code") or 1000, message.get("reason") or "")
            case _:
                super().handle_reply(message)

    def _refuse(self, body: bytes) -> None:
        if self._refusal is None or self.state != self.STATE_CONNECTING:
            return
        del self.handshake_deferred
        self._answer(self._refusal["status"], self._refusal.get("headers", ()), body)
        self.server.protocol_disconnected(self)
        self.dropConnection(abort=False)

    def failHandshake(  # noqa: N802 - Autobahn's name
        self,
        reason: str,
        code: int = 400,
        responseHeaders: Any = None,  # noqa: N803 - Autobahn's name
    ) -> None:
        """Refuse a handshake. Autobahn would put the reason into the status line."""
        self.wasNotCleanReason = reason
        headers = [(b"Content-Type", JSON)]
        if responseHeaders:  # Autobahn passes headers only for an unsupported WebSocket version.
            code = http.HTTPStatus.UPGRADE_REQUIRED
            headers += [(b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
        self._answer(code, headers, json_reason(reason))
        self.dropConnection(abort=False)

    def _answer(self, code: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        status = http.HTTPStatus(code)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"Content-Length: %d" % len(body), b"Connection: close", b"", body]
        self.sendData(b"\r\n".join(lines))

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Parse bytes without Autobahn's log line, which takes longer than reading a frame."""
        self._dataReceived(data)

    def consumeData(self) -> None:  # noqa: N802 - Autobahn's name
        if self.state not in (self.STATE_OPEN, self.STATE_CLOSING):
            super().consumeData()
            return
        if self._is_reading_paused:
            return
        self._is_out_of_turn = not self.share.begins(self._continue)
        while not self._is_out_of_turn and self._parses_more():
            self._is_out_of_turn = not self.share.goes_on(self._continue)
        self.share.ends()
        if self._is_out_of_turn and len(self.data) > MAX_UNPARSED_BYTES:
            self.transport.pauseProducing()

    def _parses_more(self) -> bool:
        for _ in range(STEPS_AT_ONCE):
            took_frames = self._takes_whole_frames()
            has_more = bool(self.data) if took_frames else self.processData()
            if not has_more or self.state == self.STATE_CLOSED or self._is_reading_paused:
                return False
            if took_frames:
                break
        return True

    def _takes_whole_frames(self) -> bool:
        if self.current_frame is not None or self.inside_message or self.state != self.STATE_OPEN:
            return False
        data, at = self.data, 0
        for _ in range(FRAMES_AT_ONCE):
            frame = whole_frame(data, at, self.maxMessagePayloadSize)
            if frame is None:
                break
            at, is_binary, payload = frame
            self.onMessage(payload, is_binary)
            if self._is_reading_paused or self.state != self.STATE_OPEN:
                break
        if at:
            self.data = data[at:]
        return at > 0

    def _connectionLost(self, reason: Any) -> None:  # noqa: N802 - Autobahn's name
        """Take the frames that came before the end of the connection, such as acks.

        Little more than one read of the socket can wait here, so other connections need not wait long.
        """
        if self.state == self.STATE_OPEN:
            while self._takes_whole_frames():
                pass
        super()._connectionLost(reason)

    def _continue(self) -> None:
        if self.state == self.STATE_CLOSED:
            return
        self.consumeData()
        if not self._is_out_of_turn and not self._is_reading_paused and not self.server.is_stopping:
            self.transport.resumeProducing()

    def onMessageBegin(self, isBinary: bool) -> None:  # noqa: N802, N803 - Autobahn's names
        super().onMessageBegin(isBinary)
        self.message_data = bytearray()

    def onMessageFrameData(self, payload: bytes) -> None:  # noqa: N802 - Autobahn's name
        """Add a piece to the message.

        Autobahn would keep a list of the pieces, and empty pieces could fill up memory.
        """
        if self.message_data is not None and not self.failedByMe:
            self.message_data += payload

    def onMessageEnd(self) -> None:  # noqa: N802 - Autobahn's name
        """End the message without Autobahn's event, which takes 4 µs and has no listeners."""
        if self.message_data is not None and not self.failedByMe:
            self.onMessage(bytes(self.message_data), self.message_is_binary)
        self.message_data = None

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803 - Autobahn's names
        if self._probes:
            self._settle_probes(alive=True)
        if self._is_finishing:
            return
        if isBinary:
            event = {"type": "websocket.receive", "bytes": payload}
        else:
            try:
                event = {"type": "websocket.receive", "text": payload.decode()}
            except UnicodeDecodeError:
                self.close(1007, "a text frame is not UTF-8")
                return
        self.application_queue.put_nowait(event, len(payload))

    def onPing(self, payload: bytes) -> None:  # noqa: N802 - Autobahn's name
        """Answer a ping. While the peer does not read, keep only the last ping.

        Pongs for all pings could fill up memory. RFC 6455 allows one pong for several pings.
        """
        if self._is_output_paused:
            self._unanswered_ping = payload
        else:
            self.sendPong(payload)

    def onPong(self, payload: bytes) -> None:  # noqa: N802 - Autobahn's name
        self._settle_probes(alive=True)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:  # noqa: N802, N803
        self._settle_probes(alive=False)
        self.output_drained()
        # Free the buffers, because the garbage collector may free this object much later.
        self.data, self.message_data = b"", None
        if hasattr(self, "server"):  # False if the connection ended before `onConnect`
            super().onClose(wasClean, code, reason)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._is_reading_paused = True
        self.transport.pauseProducing()

    def resume_reading(self) -> None:
        """Resume reading. Cancel the timer of Daphne's ping, because the peer's pong may wait in the socket."""
        self._is_reading_paused = False
        if self.autoPingTimeoutCall is not None:
            self.autoPingTimeoutCall.cancel()
            self._forget_ping()
        self._continue()

    def check_timeouts(self) -> None:
        """Run Daphne's timeout checks, except while reading is paused or Daphne's ping waits for its pong.

        If Daphne sent a second ping before the pong, nothing could cancel the timer of the first ping.
        """
        if self._is_heard() and self.autoPingTimeoutCall is None:
            super().check_timeouts()

    def onAutoPingTimeout(self) -> None:  # noqa: N802 - Autobahn's name
        if self._is_heard():
            super().onAutoPingTimeout()
        else:
            self._forget_ping()

    def _forget_ping(self) -> None:
        self.autoPingTimeoutCall = self.autoPingPending = None

    @property
    def address(self) -> str:
        """The peer's host and port, or "unknown"."""
        return f"{self.client_addr[0]}:{self.client_addr[1]}" if self.client_addr else "unknown"

    @property
    def is_secure(self) -> bool:
        """Whether the connection has TLS."""
        return bool(self.transport.is_secure)

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client's verified certificate, if the certificate has exactly one common name."""
        certificate: ClientCertificate | None = self.transport.certificate
        return certificate

    def write_frames(self, payloads: Sequence[bytes], *, binary: bool) -> None:
        """Send each payload as one frame."""
        if self.state != self.STATE_OPEN:
            return
        opcode = 0x82 if binary else 0x81
        buffers: list[bytes] = []
        for payload in payloads:
            size = len(payload)
            if size < 126:
                buffers.append(_SMALL.pack(opcode, size))
            elif size < 65536:
                buffers.append(_MEDIUM.pack(opcode, 126, size))
            else:
                buffers.append(_LARGE.pack(opcode, 127, size))
            buffers.append(payload)
        self._unsent_bytes += sum(map(len, buffers))
        self.transport.writeSequence(buffers)
        if not self._is_output_paused:
            self._unsent_bytes = 0
        elif self._unsent_bytes >= HIGH_WATER_BYTES:
            self._drained.clear()

    @property
    def unsent_bytes(self) -> int:
        """Approximate number of unsent bytes. Less than 64 KiB counts as 0.

        The number does not fall while the buffer is being sent. It becomes 0 when the buffer is empty.
        """
        return self._unsent_bytes

    def is_connected(self) -> bool:
        """Return whether the connection is open and not closing."""
        return bool(self.state == self.STATE_OPEN)

    def is_writable(self) -> bool:
        """Return whether `unsent_bytes` is below HIGH_WATER_BYTES."""
        return self._unsent_bytes < HIGH_WATER_BYTES

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the socket becomes writable again."""
        self._on_writable.append(callback)

    def output_paused(self) -> None:
        """Called when Twisted's buffer has more than 64 KiB."""
        self._is_output_paused = True

    def output_drained(self) -> None:
        """Let writers continue, and answer the peer's unanswered ping."""
        self._is_output_paused = False
        self._unsent_bytes = 0
        if self._unanswered_ping is not None:
            ping, self._unanswered_ping = self._unanswered_ping, None
            self.sendPong(ping)
        if not self._drained.is_set():
            self._drained.set()
            for callback in self._on_writable:
                callback()

    async def drained(self) -> None:
        """Wait until the socket is writable or the connection is closed."""
        await self._drained.wait()

    async def is_alive(self, timeout_ms: int) -> bool:
        """Ping the peer, and return whether an answer arrives in time. Drop a silent connection.

        Any message counts as an answer. While reading is paused, the peer counts as alive.
        """
        if not self.is_connected():
            return False
        if not self._is_heard():
            return True
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._probes.append(answer)
        self.sendPing(b"alive?")
        try:
            return await asyncio.wait_for(answer, timeout_ms / 1000)
        except TimeoutError:
            if not self._is_heard():
                return True
            self.dropConnection(abort=True)
            return False

    def _is_heard(self) -> bool:
        return not self._is_reading_paused

    def _settle_probes(self, *, alive: bool) -> None:
        probes, self._probes = self._probes, []
        for answer in probes:
            if not answer.done():
                answer.set_result(alive)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame. Safe to repeat."""
        if self.state == self.STATE_OPEN:
            # Autobahn's sendClose accepts only the code 1000 and codes from 3000 upwards.
            self.sendCloseFrame(code=int(code), reasonUtf8=close_reason(reason).encode(), isReply=False)

    def finish(self) -> None:
        """Close the connection because the broker stops. Drop all messages that still arrive."""
        self._is_finishing = True
        self._is_reading_paused = False
        self.transport.resumeProducing()
        self.close(1001, "the broker stops")


class FlowControlledFactory(WebSocketFactory):  # type: ignore[misc]  # Daphne has no types
    """Builds a `FlowControlledProtocol` for each WebSocket."""

    protocol = FlowControlledProtocol
