"""The console's ASGI application. The broker's is built by `manage.py runbroker` and never passes through here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from django.core.asgi import get_asgi_application

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Event = Mapping[str, Any]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

_django = get_asgi_application()


async def application(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Event]], send: Callable[[Event], Awaitable[None]]
) -> None:
    """Django's pages; a WebSocket that comes here wanted the broker's port and is refused without a traceback."""
    if scope["type"] == "websocket":
        await send(
            {"type": "websocket.close", "code": 4404, "reason": "WebSockets are served by the broker's port"}
        )
        return
    await _django(scope, receive, send)
