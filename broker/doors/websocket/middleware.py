"""Middleware for WebSocket handshakes."""

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
    """Limits the number of open WebSockets, and refuses further WebSockets with status 503."""

    def __init__(self, inner: Application, *, most: int, limits: ConnectionLimits) -> None:
        """`most` is the limit, or 0 for no limit."""
        super().__init__(inner)
        self._most = most
        self._limits = limits
        self._open = 0

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
    """Decodes the query into `scope["query"]`. Answers with status 400 if the query cannot be decoded."""

    def check(self, scope: Scope) -> None:
        scope["query"] = parse_query(scope["query_string"])


class RawPath(CheckingMiddleware):
    """Lets URLRouter match the undecoded path, in which `%2F` is not a separator."""

    def check(self, scope: Scope) -> None:
        path = scope["raw_path"].decode("latin-1")
        # URLRouter would remove all leading slashes.
        if not path.startswith("/") or path.startswith("//"):
            raise HandshakeRefused(404, UNKNOWN_ENDPOINT)
        scope["path"] = path
        # Daphne takes `root_path` from a client's header. A wrong value would make URLRouter fail.
        scope["root_path"] = ""
