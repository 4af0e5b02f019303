"""Apache's own client while an operator terminates, grows and deletes its topics and limits their backlogs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
QUIET_MS = 1_500


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
    return f"apache-topics-{abs(hash(request.node.name)):x}"


def drain(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    payloads = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        payloads.append(message.data())
        consumer.acknowledge(message)
    return payloads


def refused(call: object, *errors: type[Exception]) -> bool:
    assert callable(call)
    try:
        call()
    except errors:
        return True
    return False


@pytest.mark.row("I23")
def test_a_terminated_topic_is_read_to_its_end_and_refuses_messages(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(topic, send_timeout_millis=3000)
    for index in range(3):
        producer.send(b"%d" % index)
    out = shared_vela.manage("topic", "terminate", topic, "--yes")
    assert "takes messages again" in out
    wait_until(
        lambda: refused(lambda: client.create_producer(topic), pulsar.TopicTerminated),
        "producers to be refused",
    )
    assert drain(consumer, 3) == [b"0", b"1", b"2"]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(QUIET_MS)
    # This client would close its connection on REACHED_END_OF_TOPIC, so the broker must not send that command.
    assert consumer.is_connected()
    late = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
    assert drain(late, 3) == [b"0", b"1", b"2"]


@pytest.mark.row("S2.10")
def test_new_partitions_are_seen_with_their_subscriptions(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    shared_vela.manage("createtopic", topic, "--partitions", "1")
    consumer = client.subscribe(topic, "s")
    consumer.close()
    assert len(client.get_topic_partitions(topic)) == 1
    shared_vela.manage("updatepartitions", topic, "3", "--yes")
    assert len(client.get_topic_partitions(topic)) == 3
    producer = client.create_producer(
        topic,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        batching_enabled=False,
    )
    for index in range(6):
        producer.send(b"%d" % index)
    # The consumer asks for Latest, so it gets earlier messages only because the subscription has kept them.
    again = client.subscribe(topic, "s")
    assert sorted(drain(again, 6)) == [b"%d" % index for index in range(6)]


def test_producers_wait_for_a_full_topic_and_continue_when_it_has_room(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "slow", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(topic, send_timeout_millis=2000)
    shared_vela.manage("setpolicy", topic, "backlog_quota_bytes=1000", "--yes")
    sent = 0

    def blocked() -> bool:
        nonlocal sent
        try:
            producer.send(b"x" * 200)
        except pulsar.PulsarException:
            return True
        sent += 1
        time.sleep(0.2)  # the broker checks the quota every few seconds
        return False

    wait_until(blocked, "the quota to stop the producer", timeout_s=60)
    with pytest.raises(pulsar.ProducerBlockedQuotaExceededError):
        client.create_producer(topic)
    drain(consumer, sent)

    def goes_on() -> bool:
        try:
            client.create_producer(topic).send(b"again")
        except pulsar.PulsarException:
            return False
        return True

    wait_until(goes_on, "producers to be let in again", timeout_s=30)


def test_a_deleted_topic_starts_empty(shared_vela: VelaProcess, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"old")
    producer.close()
    shared_vela.manage("topic", "delete", topic, "--yes", "--force")
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    client.create_producer(topic).send(b"new")
    assert drain(consumer, 1) == [b"new"]


def test_a_bad_policy_is_refused_on_the_command_line(shared_vela: VelaProcess) -> None:
    before = shared_vela.manage("showpolicy", "public/default")
    for place, policy, says in (
        ("public/default", "message_ttl_ms=-5", "a whole number of milliseconds from 0"),
        ("no-such-topic", "max_consumers=5", "there is no topic"),
    ):
        with pytest.raises(AssertionError, match=says):
            shared_vela.manage("setpolicy", place, policy, "--yes")
    assert shared_vela.manage("showpolicy", "public/default") == before
