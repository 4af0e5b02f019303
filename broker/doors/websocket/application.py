"""The WebSocket application of the broker's HTTP port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.routing import URLRouter

from broker.clock import Clock, SystemClock
from broker.doors.websocket.middleware import ConnectionLimit, QueryParameters, RawPath
from broker.doors.websocket.routes import socket_routes

if TYPE_CHECKING:
    from broker.doors.asgi import Application
    from broker.doors.ports import BrokerPort

__all__ = ["websocket_application"]


def websocket_application(broker: BrokerPort, clock: Clock | None = None) -> Application:
    """Return an ASGI application for `websocket` scopes.

    The application does not check the headers `Host` and `Origin`.
    """
    router = URLRouter(socket_routes(broker, clock or SystemClock()))
    return ConnectionLimit(
        QueryParameters(RawPath(router)), most=broker.settings.max_websockets, limits=broker.connections
    )
