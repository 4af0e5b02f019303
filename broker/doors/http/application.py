"""The ASGI application of the broker's process: WebSocket endpoints, long-poll pull and three pages.

Mounted before Django: no ORM, no middleware and no thread hop lies on a message's path. Every request passes the gate,
which keeps foreign web pages out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from channels.routing import ProtocolTypeRouter

from broker.doors.http.pages import HttpPages
from broker.doors.pull.answers import PullAnswers
from broker.doors.pull.pages import PullPages
from broker.doors.websocket.routes import WebSocketRouter

if TYPE_CHECKING:
    from broker.doors.asgi import Application, Receive, Scope, Send
    from broker.doors.ports import BrokerPort

__all__ = ["application"]


def application(broker: BrokerPort, pulls: PullAnswers) -> Application:
    """Routes by protocol; needs the `vela.socket` extension of `DaphneServer`."""
    pages, pull_pages = HttpPages(broker), PullPages(broker, pulls)

    async def http(scope: Scope, receive: Receive, send: Send) -> None:
        await (pull_pages if scope["path"].startswith("/pull/") else pages)(scope, receive, send)

    router = ProtocolTypeRouter({"http": http, "websocket": WebSocketRouter(broker)})
    return pulls.gate.guard(cast("Application", router))
