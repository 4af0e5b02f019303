"""`/metrics`, `/healthz` and `/readyz` of the broker's process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.transports.ports import BrokerPort
    from broker.transports.web_socket import Receive, Scope, Send

__all__ = ["HttpPages", "json_reason"]

JSON = b"application/json"
PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"


def json_reason(reason: str) -> bytes:
    """The body of a refusal, in the shape of Pulsar's REST."""
    return json.dumps({"reason": reason}).encode()


class HttpPages:
    """An ASGI application; everything it does not know is 404."""

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, content_type, body = self._page(scope["method"], scope["path"])
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        if status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _page(self, method: str, path: str) -> tuple[int, bytes, bytes]:
        if path not in ("/metrics", "/healthz", "/readyz"):
            return 404, JSON, json_reason(f"nothing is served at {path}; see /metrics, /healthz, /readyz")
        if method not in ("GET", "HEAD"):
            return 405, JSON, json_reason(f"{path} takes GET")
        if path == "/metrics":
            return 200, PROMETHEUS_TEXT, self._broker.metrics_text().encode()
        if path == "/healthz":
            return 200, JSON, b'{"status":"ok"}'
        ready, reason = self._broker.is_ready()
        return (200, JSON, b'{"status":"ready"}') if ready else (503, JSON, json_reason(reason))
