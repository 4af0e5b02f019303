"""Fill a started Vela, so that inputs get further than "there is no such topic"."""

from __future__ import annotations

import http.client
from typing import Final
from urllib.parse import urlsplit

import pulsar

from tests.support.vela import VelaProcess

__all__ = ["NAMESPACE", "furnish"]

NAMESPACE: Final = "fuzz/inputs"
"""The namespace that gets the inputs. The innocent clients use another one."""

_TOPICS: Final = ("orders", "payments", f"{NAMESPACE}/orders", f"{NAMESPACE}/topic")


def furnish(vela: VelaProcess) -> None:
    """Create the namespace, and topics with a subscription `s` that has acked a part of twenty messages."""
    tenant, _, _ = NAMESPACE.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(vela.http_url).port, timeout=30)
    for path in (f"tenants/{tenant}", f"namespaces/{NAMESPACE}"):
        body = b'{"adminRoles": [], "allowedClusters": ["vela"]}' if path.startswith("tenants") else b""
        connection.request("PUT", f"/admin/v2/{path}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 204, said
    connection.close()
    client = pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        for topic in _TOPICS:
            _publish(client, topic)
    finally:
        client.close()


def _publish(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b'{"a": 1}', partition_key=str(number), properties={"a": "b"})
    for _ in range(5):
        consumer.acknowledge(consumer.receive(20_000))
    producer.close()
    consumer.close()
