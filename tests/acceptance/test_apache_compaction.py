"""Apache's own client reads compacted topics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.vela import ADMIN_PASSWORD, VelaProcess

RECEIVE_MS = 20_000
QUIET_MS = 500


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        shared_vela.pulsar_url,
        operation_timeout_seconds=5,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield client
    client.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"apache-compaction-{abs(hash(request.node.name)):x}"


def compact(process: VelaProcess, topic: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "vela.cli", "compact", topic, "--yes"],
        env={
            **os.environ,
            "VELA_CONSOLE_URL": process.console_url,
            "VELA_USER": "admin",
            "VELA_PASSWORD": ADMIN_PASSWORD,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def send(producer: pulsar.Producer, *pairs: str) -> None:
    for pair in pairs:
        key, _, value = pair.partition("=")
        producer.send(value.encode(), partition_key=key or None)


def shown(message: pulsar.Message) -> str:
    return f"{message.partition_key()}={message.data().decode()}"


def read_to_the_end(client: pulsar.Client, topic: str, *, is_read_compacted: bool = True) -> list[str]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=is_read_compacted)
    found = []
    while reader.has_message_available():
        found.append(shown(reader.read_next(RECEIVE_MS)))
    reader.close()
    return found


@pytest.mark.row("I26")
def test_readers_and_consumers_get_the_latest_message_of_each_key(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    send(producer, "a=1", "b=1", "=x", "a=2", "c=1", "b=")
    assert "compaction keeps 2 messages" in compact(shared_vela, topic)
    assert read_to_the_end(client, topic) == ["a=2", "c=1"]
    assert len(read_to_the_end(client, topic, is_read_compacted=False)) == 6
    send(producer, "a=3")
    assert read_to_the_end(client, topic) == ["a=2", "c=1", "a=3"]
    compact(shared_vela, topic)
    assert read_to_the_end(client, topic) == ["c=1", "a=3"]
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.Exclusive,
        initial_position=pulsar.InitialPosition.Earliest,
        is_read_compacted=True,
    )
    received = [consumer.receive(RECEIVE_MS) for _ in range(2)]
    assert [shown(message) for message in received] == ["c=1", "a=3"]
    consumer.acknowledge_cumulative(received[-1])
    send(producer, "d=1")
    assert shown(consumer.receive(RECEIVE_MS)) == "d=1"
    with pytest.raises(pulsar.Timeout):
        consumer.receive(QUIET_MS)


@pytest.mark.row("I26")
def test_batches_keep_the_messages_that_stay(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=2000, batching_max_messages=3
    )
    for pair in ("a=1", "b=1", "c=1", "a=2", "b=", "d=1"):
        key, _, value = pair.partition("=")
        producer.send_async(value.encode(), lambda *_: None, partition_key=key)
    producer.flush()
    compact(shared_vela, topic)
    found = read_to_the_end(client, topic)
    # This client shows a removed message as one without key and content.
    assert [each for each in found if each != "="] == ["c=1", "a=2", "d=1"]


def test_a_shared_subscription_is_refused(client: pulsar.Client, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, is_read_compacted=True)
