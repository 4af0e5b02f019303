"""The ASGI application of the live stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from channels.auth import AuthMiddlewareStack
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.middleware.security import SecurityMiddleware

from console.live.consumer import Live
from console.live.feed import Feed
from console.middleware import trouble_in

__all__ = ["live_application"]

Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


def live_application(feed: Feed) -> Application:
    """Return the ASGI application that answers `/live`."""
    return _readable_requests(AuthMiddlewareStack(Live.as_asgi(feed=feed)))


def _readable_requests(inner: Application) -> Application:
    """Check requests before calling `inner`, because Channels does not run Django's middleware."""
    security = SecurityMiddleware(lambda _request: HttpResponse())

    async def checked(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        request = ASGIRequest(scope, BytesIO())
        trouble = trouble_in(request)
        if trouble:
            await _answer(send, 400, (b"Content-Type", b"text/plain"), trouble)
        elif redirect := security.process_request(request):
            await _answer(send, redirect.status_code, (b"Location", redirect["Location"].encode()), "")
        else:
            await inner(scope, receive, send)

    return checked


async def _answer(
    send: Callable[[Any], Awaitable[None]], status: int, header: tuple[bytes, bytes], text: str
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [header]})
    await send({"type": "http.response.body", "body": text.encode()})
