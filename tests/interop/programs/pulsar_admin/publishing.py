"""Publish the few messages that the questions need."""

from __future__ import annotations

import os

import httpx
import pulsar

from tests.interop.programs.pulsar_admin.tool import check

__all__ = ["publish", "publish_batch", "reason_of_refusal"]

_TOKEN = os.environ["INTEROP_ROOT_TOKEN"]


def _send(topic: str, messages: list[dict[str, str]]) -> httpx.Response:
    return httpx.post(
        f"{os.environ['INTEROP_HTTP_URL']}/topics/{topic.replace('://', '/')}",
        headers={"Authorization": f"Bearer {_TOKEN}"},
        json={"messages": messages},
        timeout=30,
    )


def publish(topic: str, *payloads: str, key: str = "") -> list[str]:
    """Publish messages, each as a separate entry, and return their ids: ledger:entry."""
    answer = _send(topic, [{"payload": each, **({"key": key} if key else {})} for each in payloads])
    answer.raise_for_status()
    results = answer.json()["messagePublishResults"]
    check([each["errorCode"] for each in results], [0] * len(payloads), "publishing")
    return [":".join(each["messageId"].split(":")[:2]) for each in results]


def reason_of_refusal(topic: str) -> str:
    """Publish a message, which must be refused, and return the reason."""
    answer = _send(topic, [{"payload": "late"}])
    check(answer.status_code, 412, "status")
    return str(answer.json()["reason"])


def publish_batch(topic: str, *payloads: str) -> None:
    """Publish messages in one entry."""
    client = pulsar.Client(
        os.environ["INTEROP_URL"],
        authentication=pulsar.AuthenticationToken(_TOKEN),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=10_000)
    for each in payloads:
        producer.send_async(each.encode(), lambda _result, _id: None)
    producer.flush()
    client.close()
