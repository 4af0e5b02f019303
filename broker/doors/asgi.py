"""ASGI's types, and answers to HTTP requests and WebSocket handshakes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate
    from broker.doors.handshake_errors import HandshakeRefused

__all__ = [
    "CERTIFICATE",
    "JSON",
    "Application",
    "Receive",
    "Scope",
    "Send",
    "certificate_of",
    "json_reason",
    "refuse",
    "refuse_handshake",
    "respond",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON: Final = b"application/json"
CERTIFICATE: Final = "vela.certificate"


def certificate_of(scope: Mapping[str, Any]) -> ClientCertificate | None:
    """Return the client's verified certificate, if any."""
    certificate: ClientCertificate | None = scope.get("extensions", {}).get(CERTIFICATE)
    return certificate


def json_reason(reason: str) -> bytes:
    """Return the body of a refusal in the format of Pulsar's REST API."""
    return json.dumps({"reason": reason}).encode()


async def respond(
    scope: Scope,
    send: Send,
    status: int,
    body: bytes,
    *,
    content_type: bytes = JSON,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Answer an HTTP request."""
    own = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def refuse(scope: Scope, receive: Receive, send: Send, refusal: HandshakeRefused) -> None:
    """Refuse an HTTP request or a WebSocket handshake. Call this before the first `receive`."""
    if scope["type"] == "websocket":
        await receive()  # The first event of a WebSocket is websocket.connect.
        await refuse_handshake(send, refusal)
    else:
        await respond(scope, send, refusal.status, json_reason(refusal.reason))


async def refuse_handshake(send: Send, refusal: HandshakeRefused) -> None:
    """Refuse a WebSocket handshake with an HTTP response."""
    await send(
        {
            "type": "websocket.http.response.start",
            "status": refusal.status,
            "headers": [(b"Content-Type", JSON)],
        }
    )
    await send({"type": "websocket.http.response.body", "body": json_reason(refusal.reason)})
