"""The live stream as an ASGI application, behind the same checks as the pages: Host, NUL bytes, session and user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from channels.auth import AuthMiddlewareStack
from django.core.handlers.asgi import ASGIRequest

from console.live.consumer import Live
from console.live.feed import Feed
from console.middleware import trouble_in

__all__ = ["live_application"]

Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


def live_application(feed: Feed) -> Application:
    """Return the application that answers `/live`. All streams of a process share one feed."""
    return _readable_requests(AuthMiddlewareStack(Live.as_asgi(feed=feed)))


def _readable_requests(inner: Application) -> Application:
    """Refuse the same requests as console.middleware.ReadableRequests: Channels does not run Django's middleware."""

    async def checked(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        trouble = trouble_in(ASGIRequest(scope, BytesIO()))
        if not trouble:
            await inner(scope, receive, send)
            return
        headers = [(b"Content-Type", b"text/plain")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": trouble.encode()})

    return checked
