"""Errors on an open WebSocket, with their error numbers and close codes."""

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

MAX_CLOSE_REASON_BYTES = 123  # RFC 6455 allows 125 bytes, of which the close code takes two


class WebSocketError(IntEnum):
    """Pulsar's error numbers. Vela never sends 1, 2 or 4."""

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
        """Pulsar's text for the error."""
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
    """WebSocket close codes."""

    NORMAL = 1000
    GOING_AWAY = 1001
    UNSUPPORTED_DATA = 1003
    INVALID_DATA = 1007  # The text is not valid UTF-8, or not JSON of the expected shape
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012  # The client may connect again


class SessionError(RemoteProtocolError):
    """An error that closes the socket with `close_code` and `reason`."""

    close_code: ClassVar[CloseCode] = CloseCode.POLICY_VIOLATION
    error: ClassVar[WebSocketError] = WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON

    @property
    def reason(self) -> str:
        """Pulsar's error number and the error's text, cut to fit a close frame."""
        return close_reason(f"{int(self.error)}: {self}")


class InvalidJson(SessionError):
    """The frame is not JSON of the expected shape. Nothing in the frame takes effect."""

    close_code = CloseCode.INVALID_DATA


class InvalidCommand(SessionError):
    """The command cannot be carried out. Earlier commands in the same array may have taken effect."""


class UnexpectedBinaryFrame(SessionError):
    """The client sent a binary frame to a JSON endpoint."""

    close_code = CloseCode.UNSUPPORTED_DATA


def close_reason(text: str) -> str:
    """Return `text`, cut at a character boundary to fit a close frame."""
    return text.encode("utf-8", "replace")[:MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")
