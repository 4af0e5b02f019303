"""Peeks over the admin API: position N is the Nth entry that is not acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.doors.admin.application import AdminPages
from tests.support.broker_harness import BrokerRun

PATH = "/admin/v2/persistent/public/default/t/subscription/s/position/"


async def peeked(run: BrokerRun, number: int) -> str:
    """Return the id of the entry at this position, or the status if there is none."""
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Mapping[str, Any]) -> None:
        sent.append(event)

    path = f"{PATH}{number}"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    await AdminPages(run.broker)(scope, receive, send)
    found = dict(sent[0]["headers"]).get(b"x-pulsar-message-id")
    return str(sent[0]["status"]) if found is None else found.decode()


async def test_acknowledged_entries_are_never_peeked(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(10)
    await consumer.has(10)
    assert await consumer.ack_durably(*(positions[index] for index in (0, 3, 8, 9))) is None
    left = [str(positions[index]) for index in (1, 2, 4, 5, 6, 7)]
    assert [await peeked(run, number) for number in range(1, 8)] == [*left, "404"]
