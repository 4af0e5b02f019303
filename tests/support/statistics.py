"""Bring a broker's topics into a known state through Apache's client, and read what the admin API says about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx
import pulsar

from tests.support.waiting import wait_until

__all__ = ["RECORDED", "Shape", "documents_of", "shape_of"]

# A word for a value's kind, an array with its first element's shape, or an object's fields.
Shape = str | list[Any] | dict[str, Any]

RECORDED: Final = "statistics.ndjson"  # in tests/data/apache
_NAMESPACE: Final = "public/default"
_EARLIEST: Final = pulsar.InitialPosition.Earliest
_TYPES: Final = {
    "alone": pulsar.ConsumerType.Exclusive,
    "standby": pulsar.ConsumerType.Failover,
    "workers": pulsar.ConsumerType.Shared,
    "keyed": pulsar.ConsumerType.KeyShared,
}


def documents_of(pulsar_url: str, admin_url: str) -> dict[str, Any]:
    """Make topics, publish, consume a part, and return the answers of the statistics calls by their paths."""
    client = pulsar.Client(pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        with httpx.Client(base_url=f"{admin_url}/admin/v2", timeout=30) as admin:
            return _documents(client, admin)
    finally:
        client.close()


def _documents(client: pulsar.Client, admin: httpx.Client) -> dict[str, Any]:
    admin.put(f"/persistent/{_NAMESPACE}/shape-parts/partitions", json=2).raise_for_status()
    kept = [_used(client, f"persistent://{_NAMESPACE}/{name}") for name in ("shape", "shape-parts")]
    passing = f"non-persistent://{_NAMESPACE}/shape-passing"
    consumers = [client.subscribe(passing, name, consumer_type=kind) for name, kind in _TYPES.items()]
    producer = client.create_producer(passing, producer_name="pam", properties={"team": "a"})
    producer.send(b"passing", partition_key="k")
    kept.append((producer, *consumers))  # Python would close clients that nothing refers to
    paths = [
        f"/persistent/{_NAMESPACE}/shape/stats?getPreciseBacklog=true&getEarliestTimeInBacklog=true",
        f"/persistent/{_NAMESPACE}/shape/internalStats",
        f"/persistent/{_NAMESPACE}/shape-parts/partitioned-stats",
        f"/persistent/{_NAMESPACE}/shape-parts/partitioned-internalStats",
        f"/non-persistent/{_NAMESPACE}/shape-passing/stats",
    ]

    def acked() -> bool:
        stats = admin.get(paths[0]).json()["subscriptions"]
        return all(stats[name]["msgBacklog"] < stats["reader"]["msgBacklog"] for name in _TYPES)

    wait_until(acked, "the acks")
    return {path: admin.get(path).raise_for_status().json() for path in paths}


def _used(client: pulsar.Client, name: str) -> object:
    """Publish to a topic, and ack a part of it on a subscription of each type."""
    consumers = [
        client.subscribe(
            name,
            each,
            consumer_type=kind,
            initial_position=_EARLIEST,
            properties={"team": "a"},
            consumer_name=each,
        )
        for each, kind in _TYPES.items()
    ]
    idle = client.subscribe(name, "reader", initial_position=_EARLIEST)
    producer = client.create_producer(name, producer_name="pam", properties={"team": "a"})
    for number in range(8):
        producer.send(b"%d" % number, partition_key=f"k{number}", properties={"n": str(number)})
    for consumer in consumers:
        messages = [consumer.receive(timeout_millis=20_000) for _ in range(8)]
        consumer.acknowledge(messages[0])
        consumer.acknowledge(messages[5])
    return (producer, idle, *consumers)


def shape_of(value: object) -> Shape:
    """Return which fields a document has and of which kind their values are."""
    if isinstance(value, Mapping):
        return {str(name): shape_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "number"
    return "nothing" if value is None else "text"
