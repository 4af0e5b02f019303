"""Apache's own client on a topic with three partitions. One act moves the cursors of all three."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.api import create_topic
from tests.support.vela import VelaProcess

TOPIC = "apache-partitioned-acts"
RECEIVE_MS = 20_000
QUIET_MS = 1_000
SENT = 30


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        shared_vela.pulsar_url,
        operation_timeout_seconds=5,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield client
    client.close()


def test_a_rewind_redelivers_what_its_plan_counts_and_an_undo_reverses_it(
    shared_vela: VelaProcess, client: pulsar.Client
) -> None:
    create_topic(shared_vela, TOPIC, partitions=3)
    consumer = client.subscribe(TOPIC, "s")
    producer = client.create_producer(
        TOPIC,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        batching_enabled=False,
    )
    for index in range(SENT):
        producer.send(b"%d" % index)
    first = received(consumer, SENT)
    acked = [message for message in first if int(message.data()) % 3]
    for message in acked:
        consumer.acknowledge(message)
    consumer.close()  # the consumer sends its acks before it closes

    rewind = ("resetcursor", TOPIC, "s", "--back-minutes", "15")
    plan = shared_vela.manage(*rewind, "--dry-run")
    assert counts(plan) == (len(acked), 0)
    assert len(re.findall(r"partition [012]: mark-delete", plan)) == 3
    act = re.search(r"act (\d+) applied", shared_vela.manage(*rewind, "--yes"))
    assert act is not None
    consumer = client.subscribe(TOPIC, "s")
    again = received(consumer, SENT)
    assert sorted(int(message.data()) for message in again) == list(range(SENT))
    consumer.close()

    out = shared_vela.manage("undoact", act[1], "--yes")
    assert f"{len(acked)} messages skipped, on partitions 0, 1, 2" in out
    consumer = client.subscribe(TOPIC, "s")
    left = received(consumer, SENT - len(acked))
    assert {message.data() for message in left} == {message.data() for message in first} - {
        message.data() for message in acked
    }
    with pytest.raises(pulsar.Timeout):
        consumer.receive(QUIET_MS)


def received(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(RECEIVE_MS) for _ in range(count)]


def counts(plan: str) -> tuple[int, int]:
    """Return how many messages are redelivered, and how many are skipped."""
    again, skipped = re.search(r"again: (\d+)", plan), re.search(r"never delivered: (\d+)", plan)
    assert again is not None
    assert skipped is not None
    return int(again[1]), int(skipped[1])
