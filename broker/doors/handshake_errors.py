"""Errors that refuse an HTTP request or a WebSocket handshake."""

from __future__ import annotations

from vela.wire.errors import RemoteProtocolError

__all__ = ["HandshakeRefused", "InvalidQuery"]


class HandshakeRefused(RemoteProtocolError):
    """Refuses a request or a WebSocket handshake with an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class InvalidQuery(HandshakeRefused):
    """Refuses an invalid query parameter with status 400, in Pulsar's wording."""

    def __init__(self, detail: str) -> None:
        super().__init__(400, f"Invalid query params: {detail}")
        self.detail = detail
