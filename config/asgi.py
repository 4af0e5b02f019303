"""The console's ASGI application. `manage.py runbroker` builds the broker's own application without this file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path, re_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

django.setup(set_prefix=False)  # the imports below need it

from console.asgi_handler import PagesHandler, readable_types  # noqa: E402
from console.live.feed import Feed  # noqa: E402
from console.live.routing import live_application  # noqa: E402


async def _refuse(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Close a WebSocket that was meant for the broker's port."""
    reason = "WebSockets are served by the broker's port"
    await send({"type": "websocket.close", "code": 4404, "reason": reason})


# Any, because django-stubs expects Django's views in a URL pattern.
_pages: Any = PagesHandler()
_live: Any = live_application(Feed())

application = ProtocolTypeRouter(
    {
        "http": readable_types(URLRouter([path("live", _live), re_path("", _pages)])),
        "websocket": _refuse,
    }
)
