"""The ASGI handler of the console's pages, and a filter for Content-Type."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.core.handlers.asgi import ASGIHandler

__all__ = ["PagesHandler", "readable_types"]

_BOUNDARY: Final = re.compile(rb";[ \t]*(boundary=[^;]*)", re.IGNORECASE)

Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


def readable_types(inner: Application) -> Application:
    """Wrap an application and remove every parameter except `boundary` from the Content-Type.

    Some values of the other parameters make Django fail.
    """

    async def filtered(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        headers = [
            (name, _readable_type(value) if name == b"content-type" else value)
            for name, value in scope["headers"]
        ]
        await inner({**scope, "headers": headers}, receive, send)

    return filtered


def _readable_type(value: bytes) -> bytes:
    kind = value.partition(b";")[0]
    boundary = _BOUNDARY.search(value)
    return kind if boundary is None else b"%b; %b" % (kind, boundary[1])


class PagesHandler(ASGIHandler):
    """Django's handler, but a cancelled request still runs to its end.

    A stopped request would not return its database connections to the pool.
    """

    def __init__(self) -> None:
        super().__init__()
        self._requests: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references to tasks

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        request = asyncio.create_task(super().__call__(scope, receive, send))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        await asyncio.shield(request)
