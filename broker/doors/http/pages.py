"""`/metrics`, `/healthz` and `/readyz` of the broker's process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.core.access.permissions import CLUSTER, Action
from broker.core.errors import BrokerError
from broker.doors.asgi import JSON, json_reason, respond
from broker.doors.http_credentials import principal_of
from broker.doors.server_errors import http_status

if TYPE_CHECKING:
    from broker.doors.asgi import Receive, Scope, Send
    from broker.doors.ports import BrokerPort

__all__ = ["HttpPages"]

PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
# During this pause between two parts of /metrics, the event loop handles messages.
_PAUSE_S: Final = 0.002
EVERYBODY: Final = "*"  # This value in VELA_METRICS_ROLES allows every client.


class HttpPages:
    """The ASGI application for `/metrics`, `/healthz` and `/readyz`."""

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker
        self._making_metrics = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/metrics/":  # Pulsar's brokers use this path.
            path = "/metrics"
        if path == "/metrics":
            try:
                await self._check_metrics(scope)
            except BrokerError as error:
                await respond(scope, send, http_status(error), json_reason(str(error)))
                return
            if scope["method"] == "GET":
                await self._send_metrics(send)
                return
        status, content_type, body = self._page(scope["method"], path)
        headers = [(b"allow", b"GET, HEAD")] if status == 405 else []
        await respond(scope, send, status, body, content_type=content_type, headers=headers)

    async def _check_metrics(self, scope: Scope) -> None:
        if EVERYBODY not in self._broker.settings.metrics_roles:
            principal = await principal_of(self._broker, scope)
            self._broker.access.check(principal, Action.MEASURE, CLUSTER)

    async def _send_metrics(self, send: Send) -> None:
        async with self._making_metrics:
            headers = [(b"content-type", PROMETHEUS_TEXT)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for part in self._broker.metrics_page():
                if part:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(_PAUSE_S)
            await send({"type": "http.response.body", "body": b""})

    def _page(self, method: str, path: str) -> tuple[int, bytes, bytes]:
        if path not in ("/metrics", "/healthz", "/readyz"):
            return 404, JSON, json_reason(_nothing_at(path))
        if method not in ("GET", "HEAD"):
            return 405, JSON, json_reason(f"{path} takes GET")
        if path == "/metrics":
            return 200, PROMETHEUS_TEXT, b""  # The method is HEAD here, because `_send_metrics` answers GET.
        if path == "/healthz":
            return 200, JSON, b'{"status":"ok"}'
        ready, reason = self._broker.is_ready()
        return (200, JSON, b'{"status":"ready"}') if ready else (503, JSON, json_reason(reason))


def _nothing_at(path: str) -> str:
    if path.startswith("/ws/"):
        return (
            f"{path} is a WebSocket address: open it with ws://, or send the headers of a WebSocket handshake"
        )
    return f"nothing is served at {path}; see /metrics, /healthz, /readyz"
