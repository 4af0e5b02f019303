"""Errors on an open WebSocket, and the numbers that a peer sees for them.

A `SessionError` closes the socket. A refused send does not close the socket, so the refusal is not an exception but a
value, `broker.doors.websocket.json.producer.SendError`. `broker.doors.handshake_errors` has the errors that keep a
socket from opening.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from vela.wire.errors import RemoteProtocolError

__all__ = [
    "CloseCode",
    "InvalidCommand",
    "InvalidJson",
    "SessionError",
    "UnexpectedBinaryFrame",
    "WebSocketError",
    "close_reason",
]

MAX_CLOSE_REASON_BYTES = 123  # a control frame has at most 125 bytes; the code takes two (RFC 6455, 5.5)


class WebSocketError(IntEnum):
    """Pulsar's error numbers.

    At the handshake Vela answers with HTTP statuses instead. It sends 5 when it closes a socket because the credentials
    have expired or were revoked, and 6 when a permission was revoked. It never sends 1, 2 or 4.
    """

    FAILED_TO_CREATE_PRODUCER = 1
    FAILED_TO_SUBSCRIBE = 2
    FAILED_TO_DESERIALIZE_FROM_JSON = 3
    FAILED_TO_SERIALIZE_TO_JSON = 4
    AUTHENTICATION_ERROR = 5
    NOT_AUTHORIZED = 6
    PAYLOAD_ENCODING_ERROR = 7
    UNKNOWN_ERROR = 8

    @property
    def text(self) -> str:
        """Pulsar's text for the number."""
        return _TEXTS[self]


_TEXTS = {
    WebSocketError.FAILED_TO_CREATE_PRODUCER: "Failed to create producer",
    WebSocketError.FAILED_TO_SUBSCRIBE: "Failed to subscribe",
    WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON: "Failed to de-serialize from JSON",
    WebSocketError.FAILED_TO_SERIALIZE_TO_JSON: "Failed to serialize to JSON",
    WebSocketError.AUTHENTICATION_ERROR: "Failed to authenticate client",
    WebSocketError.NOT_AUTHORIZED: "Client is not authorized",
    WebSocketError.PAYLOAD_ENCODING_ERROR: "Invalid payload encoding",
    WebSocketError.UNKNOWN_ERROR: "Unknown error",
}


class CloseCode(IntEnum):
    """The close codes that a peer sees, besides Autobahn's 1002 for a violation of the WebSocket protocol."""

    NORMAL = 1000  # the client closed first
    GOING_AWAY = 1001  # the broker stops, and this socket has neither a consumer nor a producer
    UNSUPPORTED_DATA = 1003  # a binary frame on a JSON endpoint
    INVALID_DATA = 1007  # not UTF-8, or (error 3) not JSON or JSON of the wrong shape
    # A command that cannot be carried out, such as a bad id or permits <= 0 (error 3); credentials that have expired or
    # were revoked (error 5); a revoked permission (error 6); on /ws/binary, every close by BinaryConnection.
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009  # a frame above the limit
    INTERNAL_ERROR = 1011  # a fault of the broker
    SERVICE_RESTART = 1012  # the broker closed the consumer or producer, for example to seek: connect again


class SessionError(RemoteProtocolError):
    """Closes the socket with `close_code` and `reason`. You may show `str()` to the peer."""

    close_code: ClassVar[CloseCode] = CloseCode.POLICY_VIOLATION
    error: ClassVar[WebSocketError] = WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON

    @property
    def reason(self) -> str:
        """The close frame's text: Pulsar's number of the error, then the message of the error."""
        return close_reason(f"{int(self.error)}: {self}")


class InvalidJson(SessionError):
    """The frame is not JSON, or does not have the shape that this endpoint expects. Nothing in it is applied."""

    close_code = CloseCode.INVALID_DATA


class InvalidCommand(SessionError):
    """Well-formed JSON that asks for something impossible. In an array, earlier commands may have been applied."""


class UnexpectedBinaryFrame(SessionError):
    """A binary frame on a JSON endpoint; Pulsar's binary protocol is at /ws/binary."""

    close_code = CloseCode.UNSUPPORTED_DATA


def close_reason(text: str) -> str:
    """Return `text`, cut at a character boundary so that it fits a close frame (123 bytes of UTF-8)."""
    return text.encode("utf-8", "replace")[:MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")
