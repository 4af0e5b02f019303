"""Delayed delivery with Apache's own client: on each type, and when the broker is killed."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta

import pulsar
import pytest

from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
QUIET_MS = 500
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = connected(shared_vela)
    yield client
    client.close()


def connected(vela: VelaProcess) -> pulsar.Client:
    return pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def subscribed(client: pulsar.Client, topic: str, type_: pulsar.ConsumerType) -> pulsar.Consumer:
    return client.subscribe(topic, f"s-{type_.name}", consumer_type=type_, initial_position=EARLIEST)


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.row("S1.4")
def test_deliver_at_and_deliver_after_apply_to_shared_and_not_to_exclusive(client: pulsar.Client) -> None:
    topic = "delayed-by-type"
    shared = subscribed(client, topic, pulsar.ConsumerType.Shared)
    exclusive = subscribed(client, topic, pulsar.ConsumerType.Exclusive)
    producer = client.create_producer(topic)
    due_ms = now_ms() + 2500
    producer.send(b"at", deliver_at=due_ms)
    producer.send(b"after", deliver_after=timedelta(milliseconds=1500))
    after_ms = now_ms() + 1500
    producer.send(b"now")
    assert [exclusive.receive(RECEIVE_MS).data() for _ in range(3)] == [b"at", b"after", b"now"]
    assert now_ms() < after_ms, "Exclusive waited"
    first = shared.receive(RECEIVE_MS)
    assert first.data() == b"now"
    shared.acknowledge(first)
    second = shared.receive(RECEIVE_MS)
    # deliver_after counts from the client's send, which is up to a round trip before after_ms was taken.
    assert (second.data(), now_ms() >= after_ms - 200) == (b"after", True)
    third = shared.receive(RECEIVE_MS)
    assert (third.data(), now_ms() >= due_ms) == (b"at", True)
    assert third.redelivery_count() == 0
    shared.acknowledge(second)
    shared.acknowledge(third)
    with pytest.raises(pulsar.Timeout):
        shared.receive(QUIET_MS)


@pytest.mark.row("I15")
def test_a_delayed_message_survives_a_kill_of_the_broker(shared_vela: VelaProcess) -> None:
    # On a busy machine the restart may take longer than the delay. If so, repeat with a longer delay.
    assert any(outlives_kill_9(shared_vela, delay_ms) for delay_ms in (6_000, 45_000))


def outlives_kill_9(vela: VelaProcess, delay_ms: int) -> bool:
    """Check that the message comes when it is due. Return False if it was due before the broker was back."""
    client = connected(vela)
    topic = f"delayed-over-death-{delay_ms}"
    shared = subscribed(client, topic, pulsar.ConsumerType.Shared)
    exclusive = subscribed(client, topic, pulsar.ConsumerType.Exclusive)
    producer = client.create_producer(topic)
    due_ms = now_ms() + delay_ms
    producer.send(b"later", deliver_at=due_ms)
    message = exclusive.receive(RECEIVE_MS)
    exclusive.acknowledge_cumulative(message)
    vela.kill("broker")
    wait_until(lambda: ready(vela), "the broker to be back", timeout_s=60)
    producer.send(b"now")
    # The broker may have lost the ack of b"later".
    assert exclusive.receive(RECEIVE_MS).data() in (b"later", b"now")
    first = shared.receive(RECEIVE_MS)
    if now_ms() >= due_ms:
        client.close()
        return False
    assert first.data() == b"now"
    shared.acknowledge(first)
    second = shared.receive(delay_ms + RECEIVE_MS)
    assert (second.data(), now_ms() >= due_ms) == (b"later", True)
    shared.acknowledge(second)
    client.close()
    return True


def ready(vela: VelaProcess) -> bool:
    try:
        with urllib.request.urlopen(f"{vela.http_url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
