"""The ASGI handler of the console's pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.handlers.asgi import ASGIHandler

__all__ = ["PagesHandler"]


class PagesHandler(ASGIHandler):
    """Django's handler, except that the server cannot cancel a request.

    The server cancels a request that still runs a second after its browser has left. Django would then not return the
    request's connections to the pool, and after eight such requests every page would answer 503.
    """

    def __init__(self) -> None:
        super().__init__()
        self._requests: set[asyncio.Task[None]] = set()  # asyncio itself keeps weak references only

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer a request. If the caller is cancelled, the request still runs to its end."""
        request = asyncio.create_task(super().__call__(scope, receive, send))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        await asyncio.shield(request)
