"""Apache's own client, unmodified: deduplication, exclusive producers, chunks, schemas, non-persistent topics."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pulsar
import pulsar.schema
import pytest

from tests.support.api import create_topic
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000


def connected(vela: VelaProcess) -> pulsar.Client:
    return pulsar.Client(
        vela.pulsar_url,
        operation_timeout_seconds=20,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = connected(shared_vela)
    yield client
    client.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"producers-{abs(hash(request.node.name)):x}"


def drained(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    messages = [consumer.receive(RECEIVE_MS) for _ in range(count)]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(500)
    return [message.data() for message in messages]


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
def test_messages_that_a_program_repeats_after_its_restart_are_stored_once(
    shared_vela: VelaProcess, topic: str, batching: bool
) -> None:
    full = f"persistent://public/default/{topic}"
    create_topic(shared_vela, topic, deduplication="true")

    def send(first: int, end: int) -> int:
        """Send as a restarted program does. Return the last sequence id that the broker had stored before."""
        client = connected(shared_vela)
        producer = client.create_producer(
            full, producer_name="reader-of-a-file", batching_enabled=batching, batching_max_messages=7
        )
        last = producer.last_sequence_id()
        for number in range(first, end):
            producer.send_async(b"%d" % number, lambda *_: None, sequence_id=number * 10)
        producer.flush()
        client.close()
        return int(last)

    # With batches, a program continues after the last stored message. With single messages, it may begin earlier.
    assert send(0, 50) == -1
    assert send(50 if batching else 30, 80) == 490
    shared_vela.kill("broker")
    assert send(80 if batching else 60, 100) == 790
    client = connected(shared_vela)
    consumer = client.subscribe(full, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert drained(consumer, 100) == [b"%d" % number for number in range(100)]
    client.close()


SEND_TIMEOUT_MS = 3000  # after fencing, only this timeout ends a send; the client's default is 30 s


def test_exclusive_producers_keep_others_out_until_they_leave(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    mode = pulsar.ProducerAccessMode
    owner = client.create_producer(topic, access_mode=mode.Exclusive)
    for wanted in (mode.Exclusive, mode.Shared):
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic, access_mode=wanted)
    other = connected(shared_vela)
    waited: list[pulsar.Producer] = []
    thread = threading.Thread(
        target=lambda: waited.append(
            other.create_producer(
                topic, access_mode=mode.WaitForExclusive, send_timeout_millis=SEND_TIMEOUT_MS
            )
        )
    )
    thread.start()
    owner.send(b"1")
    assert not waited
    owner.close()
    thread.join(timeout=20)
    (second,) = waited
    second.send(b"2")
    third = client.create_producer(topic, access_mode=mode.ExclusiveWithFencing)
    third.send(b"3")
    with pytest.raises(pulsar.PulsarException):
        second.send(b"too late")
    other.close()
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert drained(consumer, 3) == [b"1", b"2", b"3"]


def test_large_messages_travel_in_chunks(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    payloads = [bytes([number]) * size for number, size in enumerate((12_000_000, 10, 6_000_000))]
    for payload in payloads:
        producer.send(payload)
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    for payload in payloads:
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == payload
        consumer.acknowledge(message)


def test_on_shared_one_consumer_gets_all_chunks_of_a_large_message(client: pulsar.Client, topic: str) -> None:
    kind = pulsar.ConsumerType.Shared
    consumers = [client.subscribe(topic, "s", consumer_type=kind) for _ in range(3)]
    payloads = [bytes([number]) * 11_000_000 for number in range(6)]
    producers = [
        client.create_producer(topic, chunking_enabled=True, batching_enabled=False) for _ in range(2)
    ]
    for at, payload in enumerate(payloads):  # two producers send at once, so their chunks interleave
        producers[at % 2].send_async(payload, lambda *_: None)
    for producer in producers:
        producer.flush()
    came: list[bytes] = []

    def look() -> bool:
        for consumer in consumers:
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(100)
                consumer.acknowledge(message)
                came.append(message.data())
        return len(came) >= len(payloads)

    wait_until(look, "all chunks of each message at one consumer", timeout_s=30)
    assert sorted(came) == payloads
    with pytest.raises(pulsar.Timeout):
        consumers[0].receive(500)


class OrderV1(pulsar.schema.Record):  # type: ignore[misc]  # the client has no types
    number = pulsar.schema.Integer()


class OrderV2(pulsar.schema.Record):  # type: ignore[misc]
    number = pulsar.schema.Integer()
    # Without this, the field would have no default in the schema.
    note = pulsar.schema.String(required_default=True)


class OrderV3(pulsar.schema.Record):  # type: ignore[misc]
    number = pulsar.schema.String()


OrderV2.__name__ = OrderV3.__name__ = "OrderV1"  # versions of one record


@pytest.mark.parametrize("kind", [pulsar.schema.JsonSchema, pulsar.schema.AvroSchema])
def test_schemas_are_versioned_checked_and_read(client: pulsar.Client, topic: str, kind: Any) -> None:
    producer = client.create_producer(topic, schema=kind(OrderV1))
    consumer = client.subscribe(topic, "s", schema=kind(OrderV1))
    producer.send(OrderV1(number=7))
    message = consumer.receive(RECEIVE_MS)
    assert message.value().number == 7
    assert message.schema_version() == "\0" * 8
    client.create_producer(topic, schema=kind(OrderV2)).send(OrderV2(number=8, note="x"))
    assert consumer.receive(RECEIVE_MS).schema_version() == "\0" * 7 + "\1"
    for refused in (kind(OrderV3), pulsar.schema.StringSchema()):
        with pytest.raises(pulsar.IncompatibleSchema):
            client.create_producer(topic, schema=refused)
        with pytest.raises(pulsar.IncompatibleSchema):
            client.subscribe(topic, "other", schema=refused)


def test_an_older_avro_message_is_read_by_the_schema_it_was_written_with(
    client: pulsar.Client, topic: str
) -> None:
    """Avro's bytes do not name their schema: the client asks the broker for the writer's version."""
    avro = pulsar.schema.AvroSchema
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    client.create_producer(topic, schema=avro(OrderV1)).send(OrderV1(number=7))
    client.create_producer(topic, schema=avro(OrderV2)).send(OrderV2(number=8, note="x"))
    consumer.close()
    newer = client.subscribe(topic, "s", schema=avro(OrderV2))
    values = [newer.receive(RECEIVE_MS).value() for _ in range(2)]
    assert [(value.number, value.note) for value in values] == [(7, None), (8, "x")]
    older = client.subscribe(
        topic, "t", schema=avro(OrderV1), initial_position=pulsar.InitialPosition.Earliest
    )
    assert [older.receive(RECEIVE_MS).value().number for _ in range(2)] == [7, 8]


def test_a_value_of_a_primitive_schema_is_read_as_it_was_sent(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, schema=pulsar.schema.StringSchema())
    consumer = client.subscribe(topic, "s", schema=pulsar.schema.StringSchema())
    producer.send("Übung")
    assert consumer.receive(RECEIVE_MS).value() == "Übung"


def test_a_non_persistent_topic_reaches_connected_consumers(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    name = f"non-persistent://public/default/{topic}"
    producer = client.create_producer(name)
    producer.send(b"nobody is there")
    consumers = [
        client.subscribe(name, f"s{number}", consumer_type=pulsar.ConsumerType.Shared) for number in range(2)
    ]
    # Permits come after SUBSCRIBE's answer; until then messages are dropped.
    results: list[bytes] = []

    def first_arrived() -> bool:
        producer.send(b"hello")
        try:
            results.append(consumers[0].receive(200).data())
        except pulsar.Timeout:
            return False
        return True

    wait_until(first_arrived, "the first message", timeout_s=20)
    assert set(results) == {b"hello"}
    message = consumers[1].receive(RECEIVE_MS)
    consumers[1].acknowledge(message)
    assert message.data() == b"hello"
    client.create_producer(name, batching_enabled=True).send(b"in a batch")
    while (message := consumers[0].receive(RECEIVE_MS)).data() == b"hello":
        pass
    assert message.data() == b"in a batch"
    assert consumers[0].topic() == name
