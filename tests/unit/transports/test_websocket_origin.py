"""Which web pages may open a WebSocket: none of another host, unless it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from broker.transports.websocket_router import WebSocketRouter
from tests.unit.transports.fake_broker import FakeBroker
from tests.unit.transports.fake_socket import FakeSocket


async def status_of(broker: FakeBroker, origin: str | None, host: str = "127.0.0.1:8080") -> int | None:
    """The status a handshake of `/ws/pingpong` is refused with, None when it is accepted."""
    sent: list[Mapping[str, Any]] = []
    incoming = iter(({"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}))

    async def receive() -> Mapping[str, Any]:
        return next(incoming)

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin is not None else [])
    scope = {
        "type": "websocket",
        "raw_path": b"/ws/pingpong",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 5000),
        "extensions": {"vela.socket": FakeSocket()},
    }
    await WebSocketRouter(broker)(scope, receive, send)
    return next((message["status"] for message in sent if "status" in message), None)


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "127.0.0.1:8080", None),
        ("http://127.0.0.1:3000", "127.0.0.1:8080", None),
        ("https://vela.example.org", "vela.example.org", None),
        ("https://evil.example.org", "127.0.0.1:8080", 403),
        ("https://127.0.0.1.evil.example.org", "127.0.0.1:8080", 403),
        ("null", "127.0.0.1:8080", 403),
        ("https://shop.example.org", "127.0.0.1:8080", None),
    ],
)
async def test_pages_of_other_hosts_are_refused(origin: str | None, host: str, status: int | None) -> None:
    broker = FakeBroker()
    broker.settings = replace(broker.settings, websocket_origins=frozenset({"https://shop.example.org"}))
    assert await status_of(broker, origin, host) == status
