"""Failover and Key_Shared with Apache's own client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator

import pulsar
import pytest

from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

QUIET_MS = 300


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def waiting(consumer: pulsar.Consumer) -> list[pulsar.Message]:
    """Receive until nothing has arrived for a moment."""
    found: list[pulsar.Message] = []
    while True:
        try:
            found.append(consumer.receive(QUIET_MS))
        except pulsar.Timeout:
            return found


@pytest.mark.row("I12")
def test_failover_hands_over_in_order_and_without_loss(client: pulsar.Client) -> None:
    kind = pulsar.ConsumerType.Failover
    consumers = [client.subscribe("failover", "s", consumer_type=kind, consumer_name=name) for name in "ab"]
    producer = client.create_producer("failover")
    for number in range(50):
        producer.send(b"%d" % number)
    got: list[list[pulsar.Message]] = [[], []]

    def all_came() -> bool:
        for at, consumer in enumerate(consumers):
            got[at] += waiting(consumer)
        return sum(map(len, got)) >= 50

    wait_until(all_came, "the active consumer to get everything")
    assert sorted(map(len, got)) == [0, 50], "only one consumer is active"
    active = 0 if got[0] else 1
    for message in got[active][:20]:
        consumers[active].acknowledge(message)
    consumers[active].close()
    other: list[bytes] = []

    def rest_came() -> bool:
        other.extend(message.data() for message in waiting(consumers[1 - active]))
        return len(other) >= 30

    wait_until(rest_came, "the other consumer to get the rest")
    assert other == [b"%d" % number for number in range(20, 50)]


@pytest.mark.row("I9")
def test_a_hundred_keys_keep_their_order_while_consumers_come_and_go(client: pulsar.Client) -> None:
    topic, kind = "keys", pulsar.ConsumerType.KeyShared
    producer = client.create_producer(
        topic, batching_type=pulsar.BatchingType.KeyBased, batching_enabled=True
    )
    here = [client.subscribe(topic, "s", consumer_type=kind, consumer_name="c0")]
    seen: dict[str, list[int]] = {}
    sent = 0
    for turn in range(8):
        for _ in range(300):
            producer.send_async(b"%d" % sent, lambda *_: None, partition_key=f"k{sent % 100}")
            sent += 1
        producer.flush()
        if turn in (1, 2, 4):
            here.append(client.subscribe(topic, "s", consumer_type=kind, consumer_name=f"c{turn}"))
        if turn in (3, 5):
            here.pop(0).close()
        for consumer in here:
            for message in waiting(consumer):
                seen.setdefault(message.partition_key(), []).append(int(message.data()))
                consumer.acknowledge(message)

    def all_came() -> bool:
        for consumer in here:
            for message in waiting(consumer):
                seen.setdefault(message.partition_key(), []).append(int(message.data()))
                consumer.acknowledge(message)
        return sum(len(set(numbers)) for numbers in seen.values()) >= sent

    wait_until(all_came, "everything to come")
    for key, numbers in seen.items():
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), f"{key} came out of order"
