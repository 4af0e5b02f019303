"""The addresses below /pull/ over ASGI, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from broker.doors.pull.answers import PullAnswers
from broker.doors.pull.pages import PullPages
from tests.unit.doors.fake_broker import FakeBroker


@pytest.mark.parametrize(
    ("path", "method", "methods"),
    [
        ("/pull/v1/public/default/orders", "POST", b"GET"),
        ("/pull/v1-queues/public/default/orders", "PUT", b"GET"),
        ("/pull/v1-offset/public/default/orders", "DELETE", b"GET, PUT"),
    ],
)
async def test_a_wrong_method_is_answered_with_the_right_ones(path: str, method: str, methods: bytes) -> None:
    broker: Any = FakeBroker()
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    scope: Any = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "client": None,
    }
    await PullPages(broker, PullAnswers(broker))(scope, _nothing, send)
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"allow"]) == (405, methods)
    assert methods in sent[1]["body"]


async def _nothing() -> Any:
    raise AssertionError("a refusal needs no body")
