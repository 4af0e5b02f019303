"""Publishing to a whole Vela, over TCP and over WebSocket. Apache's unmodified client reads the messages back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pulsar
import pulsar.schema
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tests.support.api import act, create_topic
from tests.support.vela import VelaProcess
from tests.unit.client.recorded_encryption import PRIVATE_KEY
from vela import errors, schema
from vela.aio.client import Client
from vela.encryption import CryptoKeyReader
from vela.message import MessageId
from vela.options import (
    BatchingType,
    CompressionType,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
)

RECEIVE_MS = 20_000
T = TypeVar("T")


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


async def read_back(
    apache: pulsar.Client, topic: str, count: int, pick: Callable[[pulsar.Message], T], **options: Any
) -> list[T]:
    """Return the messages of a topic from its beginning, and check that there are no more."""

    def receive() -> list[T]:
        consumer = apache.subscribe(
            topic, "reader", initial_position=pulsar.InitialPosition.Earliest, **options
        )
        found = [pick(consumer.receive(RECEIVE_MS)) for _ in range(count)]
        with pytest.raises(pulsar.Timeout):
            consumer.receive(200)
        consumer.close()
        return found

    return await asyncio.to_thread(receive)


def place(message: pulsar.Message) -> tuple[int, int, int]:
    found = message.message_id()
    return found.ledger_id(), found.entry_id(), found.batch_index()


def placed(message_id: MessageId) -> tuple[int, int, int]:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
async def test_apaches_client_reads_every_field_of_a_message(
    apache: pulsar.Client, client: Client, topic: str, batching: bool
) -> None:
    producer = await client.create_producer(topic, batching_enabled=batching, batching_max_messages=4)
    ids = await asyncio.gather(
        *[
            producer.send_async(
                b"%d" % n,
                {"n": str(n), "ü": "é"},
                partition_key=f"key-{n}",
                ordering_key="order",
                event_timestamp=1000 + n,
            )
            for n in range(10)
        ]
    )
    read = await read_back(
        apache,
        topic,
        10,
        lambda m: (
            m.data(),
            m.properties(),
            m.partition_key(),
            m.ordering_key(),
            m.event_timestamp(),
            m.producer_name(),
            place(m),
        ),
    )
    name = producer.producer_name()
    assert read == [
        (b"%d" % n, {"n": str(n), "ü": "é"}, f"key-{n}", "order", 1000 + n, name, placed(ids[n]))
        for n in range(10)
    ]
    assert (ids[5].batch_index(), ids[5].batch_size()) == ((1, 4) if batching else (-1, 0))


async def test_every_codec_is_read(apache: pulsar.Client, tcp_client: Client, topic: str) -> None:
    expected = []
    for codec in CompressionType:
        for batching in (True, False):
            producer = await tcp_client.create_producer(
                topic, compression_type=codec, batching_enabled=batching
            )
            payloads = [f"{codec.name} {batching} the same words {n}".encode() * 20 for n in range(3)]
            await asyncio.gather(*[producer.send_async(payload) for payload in payloads])
            expected += payloads
    assert await read_back(apache, topic, len(expected), lambda m: m.data()) == expected


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
async def test_large_messages_travel_in_chunks(
    apache: pulsar.Client, client: Client, topic: str, codec: CompressionType
) -> None:
    producer = await client.create_producer(topic, chunking_enabled=True, compression_type=codec)
    payloads = [os.urandom(size) for size in (11_000_000, 10, 6_000_000)]
    ids = await asyncio.gather(*[producer.send_async(payload, {"n": "1"}) for payload in payloads])
    first = ids[0].first_chunk()
    assert first is not None
    assert ids[0].entry_id() - first.entry_id() == 2
    assert ids[1].first_chunk() is None
    assert await read_back(apache, topic, 3, lambda m: m.data()) == payloads


async def test_without_chunking_the_client_refuses_a_large_message(client: Client, topic: str) -> None:
    producer = await client.create_producer(topic)
    with pytest.raises(errors.MessageTooBig):
        await producer.send(bytes(6_000_000))
    await producer.send(b"small")


async def test_each_key_based_batch_has_one_key(
    apache: pulsar.Client, tcp_client: Client, topic: str
) -> None:
    producer = await tcp_client.create_producer(
        topic, batching_enabled=True, batching_type=BatchingType.KeyBased
    )
    await asyncio.gather(*[producer.send_async(b"%d" % n, partition_key="abc"[n % 3]) for n in range(9)])
    read = await read_back(apache, topic, 9, lambda m: (m.partition_key(), m.data(), place(m)[1]))
    entries: dict[int, set[str]] = {}
    for key, _, entry in read:
        entries.setdefault(entry, set()).add(key)
    assert sorted("".join(keys) for keys in entries.values()) == ["a", "b", "c"]
    for key, expected in (("a", b"036"), ("b", b"147"), ("c", b"258")):
        assert b"".join(data for of, data, _ in read if of == key) == expected


async def test_a_null_value_and_a_schema_are_read(
    apache: pulsar.Client, tcp_client: Client, topic: str
) -> None:
    class Order(schema.Record):
        number = schema.Integer()

    producer = await tcp_client.create_producer(topic, schema=schema.JsonSchema(Order))
    await producer.send(Order(number=7), partition_key="k")
    await producer.send(None, partition_key="k")
    with pytest.raises(TypeError):
        await producer.send(b"not an order")

    class ApachesOrder(pulsar.schema.Record):  # type: ignore[misc]  # the client has no types
        number = pulsar.schema.Integer()

    ApachesOrder.__name__ = "Order"
    read = await read_back(
        apache,
        topic,
        2,
        lambda m: (None if m.data() == b"" else m.value().number, m.schema_version()),
        schema=pulsar.schema.JsonSchema(ApachesOrder),
    )
    assert [value for value, _ in read] == [7, None]
    assert read[0][1] == "\0" * 8


@pytest.mark.parametrize(
    ("options", "last_bytes"),
    [
        ({}, 5 * 1024 * 1024 - 16),  # with its tag as large as the broker takes
        ({"batching_enabled": True, "compression_type": CompressionType.LZ4}, 5),
        ({"chunking_enabled": True, "compression_type": CompressionType.ZSTD}, 6_000_000),
        ({"chunking_enabled": True}, 5 * 1024 * 1024 - 15),  # only the tag makes it too large
    ],
    ids=["single", "compressed batches", "compressed chunks", "chunks because of the tag"],
)
async def test_apaches_client_decrypts_messages_that_vela_encrypted(
    apache: pulsar.Client,
    client: Client,
    topic: str,
    tmp_path: Path,
    options: dict[str, Any],
    last_bytes: int,
) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(PRIVATE_KEY)
    key = load_pem_private_key(PRIVATE_KEY, None).public_key()
    public.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    producer = await client.create_producer(
        topic,
        encryption_key="orders",
        crypto_key_reader=CryptoKeyReader(str(public), str(private)),
        **options,
    )
    payloads = [b"one", b"two", os.urandom(last_bytes)]
    await asyncio.gather(*[producer.send_async(payload) for payload in payloads])
    read = await read_back(
        apache,
        topic,
        3,
        lambda m: m.data(),
        crypto_key_reader=pulsar.CryptoKeyReader(str(public), str(private)),
    )
    assert read == payloads


async def test_this_client_reads_its_own_batches_and_chunks(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    large = await client.create_producer(
        topic, chunking_enabled=True, compression_type=CompressionType.SNAPPY
    )
    small = await client.create_producer(topic, batching_enabled=True)
    payloads = [os.urandom(11_000_000), b"a", b"b", os.urandom(6_000_000)]
    ids = [await (large if len(each) > 1 else small).send(each) for each in payloads]
    for payload, message_id in zip(payloads, ids, strict=True):
        message = await asyncio.wait_for(consumer.receive(), 20)
        assert message.data() == payload
        assert message.message_id() == message_id
        assert message.message_id().first_chunk() == message_id.first_chunk()
        await consumer.acknowledge(message)


# --- partitions


async def test_keys_go_to_the_partitions_that_apaches_client_chooses(
    shared_vela: VelaProcess, apache: pulsar.Client, tcp_client: Client, topic: str
) -> None:
    create_topic(shared_vela, topic, partitions=7)
    keys = [f"order-{n}" for n in range(40)] + ["a", "ключ", "日本語", "x" * 50]

    def by_apache() -> list[int]:
        producer = apache.create_producer(topic)
        found = [producer.send(b"x", partition_key=key).partition() for key in keys]
        producer.close()
        return found

    expected = await asyncio.to_thread(by_apache)
    producer = await tcp_client.create_producer(topic)
    ids = await asyncio.gather(*[producer.send_async(b"x", partition_key=key) for key in keys])
    assert [each.partition() for each in ids] == expected
    assert len(set(expected)) == 7


async def test_partitions_take_turns_and_added_partitions_are_used(
    shared_vela: VelaProcess, tcp_client: Client, topic: str
) -> None:
    create_topic(shared_vela, topic, partitions=2)
    producer = await tcp_client.create_producer(topic, partitions_update_interval_seconds=0.05)
    single = await tcp_client.create_producer(
        topic,
        message_routing_mode=PartitionsRoutingMode.UseSinglePartition,
        lazy_start_partitioned_producers=True,
        batching_enabled=True,
    )
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(4)])
    assert sorted(each.partition() for each in ids) == [0, 0, 1, 1]
    ids = await asyncio.gather(*[single.send_async(b"x") for _ in range(4)])
    assert len({each.partition() for each in ids}) == 1
    await asyncio.to_thread(act, shared_vela, "update_partitions", topic, partitions=3)
    seen: set[int] = set()

    async with asyncio.timeout(10):
        while seen != {0, 1, 2}:
            seen.add((await producer.send(b"x")).partition())


# --- deduplication and access


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
async def test_a_repeated_send_is_stored_once(
    shared_vela: VelaProcess, apache: pulsar.Client, tcp_client: Client, topic: str, batching: bool
) -> None:
    create_topic(shared_vela, topic, deduplication="true")
    for first, end, expected_last in ((0, 30, -1), (20, 50, 290), (50, 60, 490)):
        producer = await tcp_client.create_producer(
            topic, "reader-of-a-file", batching_enabled=batching, batching_max_messages=7
        )
        assert producer.last_sequence_id() == expected_last
        ids = await asyncio.gather(
            *[producer.send_async(b"%d" % n, sequence_id=n * 10) for n in range(first, end)]
        )
        assert producer.last_sequence_id() == (end - 1) * 10
        assert [each.ledger_id() >= 0 for each in ids] == [n * 10 > expected_last for n in range(first, end)]
        await producer.close()
    assert await read_back(apache, topic, 60, lambda m: m.data()) == [b"%d" % n for n in range(60)]


async def test_broken_links_neither_lose_nor_duplicate_messages(
    shared_vela: VelaProcess, apache: pulsar.Client, client: Client, topic: str
) -> None:
    create_topic(shared_vela, topic, deduplication="true")
    producer = await client.create_producer(topic, batching_enabled=True, batching_max_messages=5)
    breaking = True

    async def break_links() -> None:
        while breaking:
            await asyncio.sleep(0.05)
            for connection in client.pool.connections:
                connection.abort(errors.ConnectError("by the test"))

    breaker = asyncio.create_task(break_links())
    for n in range(600):
        # Wait after every thirty messages, so that links break at every stage of a send.
        sending = producer.send_async(b"%d" % n)
        if n % 30 == 29:
            await sending
    await producer.flush()
    breaking = False
    await breaker
    assert await read_back(apache, topic, 600, lambda m: m.data()) == [b"%d" % n for n in range(600)]


async def test_exclusive_producers_keep_others_out_and_waiting_ones_take_over(
    service_url: str, client: Client, topic: str
) -> None:
    mode = ProducerAccessMode
    owner = await client.create_producer(topic, access_mode=mode.Exclusive)
    with pytest.raises(errors.ProducerFenced):
        await client.create_producer(topic, access_mode=mode.Exclusive)
    with pytest.raises(errors.ProducerBusy):
        await client.create_producer(topic)
    async with Client(service_url) as other:
        waiting = asyncio.ensure_future(
            other.create_producer(topic, access_mode=mode.WaitForExclusive, send_timeout_millis=1000)
        )
        await owner.send(b"1")
        assert not waiting.done()
        await owner.close()
        second = await asyncio.wait_for(waiting, 20)
        await second.send(b"3")
        third = await client.create_producer(topic, access_mode=mode.ExclusiveWithFencing)
        await third.send(b"4")
        with pytest.raises(errors.Timeout):  # the producer waits in line again
            await second.send(b"too late")
        assert not second.is_connected()
        await third.close()
        fourth = await client.create_producer(topic, access_mode=mode.ExclusiveWithFencing)
        await fourth.send(b"5")


async def test_an_exclusive_producer_is_fenced_by_one_that_fences(client: Client, topic: str) -> None:
    mode = ProducerAccessMode
    first = await client.create_producer(topic, access_mode=mode.Exclusive)
    await first.send(b"1")
    second = await client.create_producer(topic, access_mode=mode.ExclusiveWithFencing)
    with pytest.raises(errors.ProducerFenced):
        await asyncio.wait_for(first.send(b"too late"), 10)
    await second.send(b"2")


async def test_an_exclusive_producer_reconnects_as_the_owner_of_its_topic(client: Client, topic: str) -> None:
    producer = await client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
    for n in range(3):
        await producer.send(b"%d" % n)
        for connection in client.pool.connections:
            connection.abort(errors.ConnectError("by the test"))
    await producer.send(b"still here")


async def test_a_terminated_topic_ends_its_producers(
    shared_vela: VelaProcess, tcp_client: Client, topic: str
) -> None:
    producer = await tcp_client.create_producer(topic, batching_enabled=True)
    await producer.send(b"last")
    await asyncio.to_thread(shared_vela.manage, "topic", "terminate", topic, "--yes")
    with pytest.raises(errors.TopicTerminated):
        await asyncio.wait_for(producer.send(b"too late"), 10)
    with pytest.raises(errors.TopicTerminated):
        await tcp_client.create_producer(topic)


async def test_messages_can_be_published_to_a_non_persistent_topic(client: Client, topic: str) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    consumer = await client.subscribe(volatile, "s")
    producer = await client.create_producer(volatile, batching_enabled=True)
    await asyncio.gather(*[producer.send_async(b"%d" % n) for n in range(10)])
    assert [(await consumer.receive(20_000)).data() for _ in range(10)] == [b"%d" % n for n in range(10)]


async def test_a_delayed_message_comes_after_a_later_one_without_a_delay(
    apache: pulsar.Client, tcp_client: Client, topic: str
) -> None:
    producer = await tcp_client.create_producer(topic, batching_enabled=True)
    await producer.send(b"later", deliver_after=timedelta(milliseconds=1500))
    await producer.send(b"now")
    read = await read_back(apache, topic, 2, lambda m: m.data(), consumer_type=pulsar.ConsumerType.Shared)
    assert read == [b"now", b"later"]
