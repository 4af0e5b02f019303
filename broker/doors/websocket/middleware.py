"""Middleware of every WebSocket handshake: it limits connections, decodes the query and prepares the path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from channels.middleware import BaseMiddleware

from broker.doors.asgi import refuse
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.middleware import CheckingMiddleware
from broker.doors.query import parse_query
from broker.doors.websocket.transport import transport_of

if TYPE_CHECKING:
    from broker.doors.asgi import Application, Receive, Scope, Send
    from broker.listening.connection_limits import ConnectionLimits

__all__ = ["UNKNOWN_ENDPOINT", "ConnectionLimit", "QueryParameters", "RawPath"]

UNKNOWN_ENDPOINT: Final = "No such endpoint; see /ws/v2/producer, /ws/v2/consumer, /ws/v2/reader"


class ConnectionLimit(BaseMiddleware):  # type: ignore[misc]  # Channels has no types
    """Limits the WebSockets that are open or opening. Above the limit it refuses with 503."""

    def __init__(self, inner: Application, *, most: int, limits: ConnectionLimits) -> None:
        """`most` is 0 for no limit. `limits` counts the refusals."""
        super().__init__(inner)
        self._most = most
        self._limits = limits
        self._open = 0  # connections; one instance serves all of them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._most and self._open >= self._most:
            setting = "VELA_MAX_WEBSOCKETS"
            self._limits.reached(setting, "refused another WebSocket", transport_of(scope).address)
            reason = (
                f"the broker serves {self._most} WebSockets, the most that {setting} allows: close some, or try"
                " again later"
            )
            await refuse(scope, receive, send, HandshakeRefused(503, reason))
            return
        self._open += 1
        try:
            await self.inner(scope, receive, send)
        finally:
            self._open -= 1


class QueryParameters(CheckingMiddleware):
    """Decodes the query into `scope["query"]`. If it cannot be decoded, the answer is 400 on every path."""

    def check(self, scope: Scope) -> None:
        """Decode the query. Raises InvalidQuery."""
        scope["query"] = parse_query(scope["query_string"])


class RawPath(CheckingMiddleware):
    """Lets URLRouter match the path as the client wrote it, so that `%2F` in a name is not a separator.

    URLRouter alone would match the decoded path, remove every slash at its beginning, and fail if the path does not
    begin with the `Daphne-Root-Path` that the client sent.
    """

    def check(self, scope: Scope) -> None:
        """Use the raw path. Raises HandshakeRefused with 404 if the path does not begin with exactly one slash."""
        path = scope["raw_path"].decode("latin-1")
        if not path.startswith("/") or path.startswith("//"):
            raise HandshakeRefused(404, UNKNOWN_ENDPOINT)
        scope["path"] = path
        scope["root_path"] = ""
