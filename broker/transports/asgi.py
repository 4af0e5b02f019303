"""The ASGI application of the broker's process: WebSocket endpoints and three pages, before any Django middleware.

No ORM, no middleware and no thread hop lies on a message's path (design 3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from channels.routing import ProtocolTypeRouter

from broker.transports.http_pages import HttpPages
from broker.transports.websocket_router import WebSocketRouter

if TYPE_CHECKING:
    from broker.transports.ports import BrokerPort
    from broker.transports.web_socket import Receive, Scope, Send

__all__ = ["AsgiApplication", "application"]

AsgiApplication: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[None]]"


def application(broker: BrokerPort) -> AsgiApplication:
    """Routes by protocol; needs the `vela.socket` extension of `DaphneServer`."""
    router = ProtocolTypeRouter({"http": HttpPages(broker), "websocket": WebSocketRouter(broker)})
    return cast(AsgiApplication, router)
