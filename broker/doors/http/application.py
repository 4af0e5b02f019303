"""The ASGI application of the broker's process.

Requests do not pass through Django's handler or middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from channels.routing import ProtocolTypeRouter

from broker.doors.http.challenge import Challenge
from broker.doors.http.pages import HttpPages
from broker.doors.pull.pages import PullPages
from broker.doors.web_gate import HostAndOrigin
from broker.doors.websocket.application import websocket_application

if TYPE_CHECKING:
    from broker.doors.asgi import Application, Receive, Scope, Send
    from broker.doors.ports import BrokerPort
    from broker.doors.pull.answers import PullAnswers

__all__ = ["application"]

_ADMIN: Final = ("/admin/", "/lookup/", "/topics/")


def application(broker: BrokerPort, pulls: PullAnswers, admin: Application | None = None) -> Application:
    """Return an application that checks the Host and Origin headers, and then routes by protocol and path.

    WebSockets need `DaphneServer`, which puts the transport into the scope. Without `admin`, the admin paths
    answer 404.
    """
    pages, pull_pages = HttpPages(broker), PullPages(broker, pulls)

    async def http(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if admin is not None and path.startswith(_ADMIN):
            await admin(scope, receive, send)
        else:
            await (pull_pages if path.startswith("/pull/") else pages)(scope, receive, send)

    router = ProtocolTypeRouter({"http": http, "websocket": websocket_application(broker)})
    return Challenge(HostAndOrigin(router, gate=pulls.gate), fields=pulls.challenge)
