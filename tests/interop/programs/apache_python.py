"""Apache's Python client asks the questions of `tests.interop.tables`. It prints `ok NAME` or `failed NAME: reason`."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
from pulsar.schema import Integer, JsonSchema, Record, String

PREFIX = os.environ["INTEROP_PREFIX"]
TOKEN = os.environ["INTEROP_TOKEN"]
WAIT_MS = 20_000
SILENCE_MS = 300


class Order(Record):  # type: ignore[misc]
    article = String()
    pieces = Integer()


class OtherOrder(Record):  # type: ignore[misc]
    article = Integer(required=True)


@contextmanager
def connected(
    url: str = os.environ["INTEROP_URL"], token: str = TOKEN, **more: Any
) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        url,
        authentication=pulsar.AuthenticationToken(token),
        operation_timeout_seconds=5,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        **more,
    )
    try:
        yield client
    finally:
        client.close()


def publish(client: pulsar.Client, topic: str, count: int, start: int = 0) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(start, start + count):
        producer.send(b"%d" % number, partition_key=f"key-{number % 10}")
    producer.close()


def take(consumer: pulsar.Consumer, count: int) -> list[int]:
    numbers = []
    for _ in range(count):
        message = consumer.receive(WAIT_MS)
        numbers.append(int(message.data()))
        consumer.acknowledge(message)
    return numbers


def drain(consumer: pulsar.Consumer) -> list[pulsar.Message]:
    messages: list[pulsar.Message] = []
    while True:
        try:
            message = consumer.receive(SILENCE_MS)
        except pulsar.Timeout:
            return messages
        consumer.acknowledge(message)
        messages.append(message)


def produce_and_consume(client: pulsar.Client) -> None:
    topic = f"{PREFIX}-plain"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    for number in range(100):
        producer.send_async(
            b"%d" % number, lambda *_: None, partition_key=f"k{number}", properties={"n": str(number)}
        )
    producer.flush()
    for number in range(100):
        message = consumer.receive(WAIT_MS)
        found = (message.data(), message.partition_key(), message.properties())
        assert found == (b"%d" % number, f"k{number}", {"n": str(number)}), found
        consumer.acknowledge(message)


def exclusive(client: pulsar.Client) -> None:
    client.subscribe(f"{PREFIX}-exclusive", "s")
    refused(lambda: client.subscribe(f"{PREFIX}-exclusive", "s"), pulsar.ConsumerBusy)


def failover(client: pulsar.Client) -> None:
    kind = pulsar.ConsumerType.Failover
    consumers = [client.subscribe(f"{PREFIX}-failover", "s", kind, consumer_name=name) for name in "ab"]
    publish(client, f"{PREFIX}-failover", 10)
    halves = _both(consumers, 10)
    assert sorted(map(len, halves)) == [0, 10], "both got messages"
    active, standby = consumers if halves[0] else reversed(consumers)
    active.close()
    publish(client, f"{PREFIX}-failover", 10, 10)
    assert take(standby, 10) == list(range(10, 20))


def shared(client: pulsar.Client) -> None:
    kind = pulsar.ConsumerType.Shared
    consumers = [client.subscribe(f"{PREFIX}-shared", "s", kind, receiver_queue_size=5) for _ in "ab"]
    publish(client, f"{PREFIX}-shared", 100)
    halves = _both(consumers, 100)
    assert sorted(int(message.data()) for half in halves for message in half) == list(range(100))
    assert all(halves)


def key_shared(client: pulsar.Client) -> None:
    kind = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(f"{PREFIX}-key-shared", "s", kind) for _ in "ab"]
    publish(client, f"{PREFIX}-key-shared", 100)
    halves = _both(consumers, 100)
    keys = [{message.partition_key() for message in half} for half in halves]
    assert len(keys[0] | keys[1]) == 10, keys
    assert not keys[0] & keys[1], keys


def _both(consumers: list[pulsar.Consumer], count: int) -> list[list[pulsar.Message]]:
    halves: list[list[pulsar.Message]] = [[], []]
    until = time.monotonic() + WAIT_MS / 1000
    while sum(map(len, halves)) < count:
        assert time.monotonic() < until, [len(half) for half in halves]
        for half, consumer in zip(halves, consumers, strict=True):
            half += drain(consumer)
    return halves


def schema(client: pulsar.Client) -> None:
    topic = f"{PREFIX}-schema"
    consumer = client.subscribe(topic, "s", schema=JsonSchema(Order))
    client.create_producer(topic, schema=JsonSchema(Order)).send(Order(article="tea", pieces=3))
    value = consumer.receive(WAIT_MS).value()
    assert (value.article, value.pieces) == ("tea", 3), value
    refused(lambda: client.create_producer(topic, schema=JsonSchema(OtherOrder)), pulsar.IncompatibleSchema)


def seek(client: pulsar.Client) -> None:
    consumer = client.subscribe(f"{PREFIX}-seek", "s")
    publish(client, f"{PREFIX}-seek", 10)
    assert take(consumer, 10) == list(range(10))
    consumer.seek(pulsar.MessageId.earliest)
    assert take(consumer, 10) == list(range(10))


def dead_letters(client: pulsar.Client) -> None:
    topic = f"{PREFIX}-poison"
    dead = client.subscribe(f"{topic}-dead", "reader")
    consumer = client.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-dead"),
    )
    publish(client, topic, 1)
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(WAIT_MS))
    refused(lambda: consumer.receive(1_000), pulsar.Timeout)
    assert take(dead, 1) == [0]


def reader(client: pulsar.Client) -> None:
    publish(client, f"{PREFIX}-reader", 10)
    found = client.create_reader(f"{PREFIX}-reader", pulsar.MessageId.earliest)
    assert [int(found.read_next(WAIT_MS).data()) for _ in range(10)] == list(range(10))
    assert not found.has_message_available()


def partitions(client: pulsar.Client) -> None:
    topic = f"{PREFIX}-partitioned"
    assert len(client.get_topic_partitions(topic)) == 3
    consumer = client.subscribe(topic, "s")
    publish(client, topic, 30)
    assert sorted(take(consumer, 30)) == list(range(30))


def pattern(client: pulsar.Client) -> None:
    for name in "ab":
        client.create_producer(f"{PREFIX}-pattern-{name}").close()
    consumer = client.subscribe(re.compile(f"persistent://public/default/{PREFIX}-pattern-.*"), "s")
    for name in "ab":
        publish(client, f"{PREFIX}-pattern-{name}", 5)
    assert sorted(take(consumer, 10)) == sorted([*range(5), *range(5)])


def token(_client: pulsar.Client) -> None:
    with connected(token=os.environ["INTEROP_FOREIGN_TOKEN"]) as stranger:
        refused(lambda: stranger.create_producer(f"{PREFIX}-token"), pulsar.PulsarException)


def tls(_client: pulsar.Client) -> None:
    url = os.environ["INTEROP_TLS_URL"]
    with connected(
        url, tls_trust_certs_file_path=os.environ["INTEROP_TRUST"], tls_validate_hostname=True
    ) as client:
        publish(client, f"{PREFIX}-tls", 1)
    with connected(url, tls_trust_certs_file_path=os.environ["INTEROP_FOREIGN_TRUST"]) as stranger:
        refused(lambda: stranger.create_producer(f"{PREFIX}-tls"), pulsar.PulsarException)


def reconnect(client: pulsar.Client) -> None:
    topic = f"{PREFIX}-reconnect"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False, send_timeout_millis=60_000)
    producer.send(b"0")
    print("kill", flush=True)
    assert sys.stdin.readline().strip() == "killed"
    for number in range(1, 20):
        producer.send(b"%d" % number)
    seen: set[int] = set()
    while len(seen) < 20:
        message = consumer.receive(WAIT_MS)
        seen.add(int(message.data()))
        consumer.acknowledge(message)


def refused(call: Callable[[], object], error: type[Exception]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


QUESTIONS: tuple[Callable[[pulsar.Client], None], ...] = (
    produce_and_consume,
    exclusive,
    failover,
    shared,
    key_shared,
    schema,
    seek,
    dead_letters,
    reader,
    partitions,
    pattern,
    token,
    tls,
    reconnect,
)


def main() -> None:
    for question in QUESTIONS:
        name = question.__name__.replace("_", "-")
        try:
            with connected() as client:
                question(client)
        except Exception as error:  # the error is the answer
            print(f"failed {name}: {type(error).__name__} {error}", flush=True)
        else:
            print(f"ok {name}", flush=True)


if __name__ == "__main__":
    main()
