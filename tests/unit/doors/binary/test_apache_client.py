"""Apache's own C++ client, through its Python package: Vela parses its entries, and the client reads Vela's."""

from __future__ import annotations

import asyncio
from typing import Any

import pulsar
import pytest

from tests.unit.doors.binary.scripted_broker import LEDGER_ID, MAX_MESSAGE_BYTES, ScriptedBroker, running
from vela.wire.compression import Compression
from vela.wire.entry import (
    Message,
    OutgoingMessage,
    checksum_ok,
    decode_messages,
    encode_batch,
    encode_single,
    parse_header,
)
from vela.wire.message_id import MessageId

TOPIC = "persistent://public/default/orders"
TIMEOUT_MS = 10_000
WAIT_S = 30
PAYLOADS = [b"order %d " % number * 20 for number in range(25)]

CODECS = [
    (pulsar.CompressionType.NONE, Compression.NONE),
    (pulsar.CompressionType.LZ4, Compression.LZ4),
    (pulsar.CompressionType.ZLib, Compression.ZLIB),
    (pulsar.CompressionType.ZSTD, Compression.ZSTD),
    (pulsar.CompressionType.SNAPPY, Compression.SNAPPY),
]


def quiet_client(url: str) -> Any:
    return pulsar.Client(
        url, operation_timeout_seconds=10, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )


async def in_thread(work: Any, *arguments: Any) -> Any:
    """Run a blocking call of the client in a thread, so that the broker's loop runs meanwhile."""
    return await asyncio.wait_for(asyncio.to_thread(work, *arguments), WAIT_S)


def produce(url: str, batching: bool, codec: Any) -> list[str]:
    client = quiet_client(url)
    try:
        producer = client.create_producer(
            TOPIC,
            producer_name="apache",
            compression_type=codec,
            batching_enabled=batching,
            batching_max_messages=10,
            batching_max_publish_delay_ms=50,
        )
        ids: list[str] = []
        for number, payload in enumerate(PAYLOADS):
            producer.send_async(
                payload,
                lambda result, message_id: ids.append(f"{result}:{message_id}"),
                properties={"number": str(number)},
                partition_key=f"key-{number % 3}",
                event_timestamp=1_700_000_000_000 + number,
                ordering_key=f"order-{number % 5}",
            )
        producer.flush()
        producer.close()
        return ids
    finally:
        client.close()


@pytest.mark.parametrize(("codec", "number"), CODECS, ids=[c.name for _, c in CODECS])
@pytest.mark.parametrize("batching", [True, False], ids=["batches", "singles"])
async def test_entries_of_the_cpp_client_are_parsed(codec: Any, number: Compression, batching: bool) -> None:
    broker = ScriptedBroker()
    async with running(broker) as url:
        ids = await in_thread(produce, url, batching, codec)
    assert len(ids) == len(PAYLOADS)
    decoded: list[Message] = []
    for send in broker.sends:
        entry = send.entry_block
        assert checksum_ok(entry)
        header = parse_header(entry)
        assert header.is_batch is batching
        assert header.messages == send.messages
        assert header.sequence_id == send.sequence_id
        assert (header.producer_name, header.compression) == ("apache", number)
        members = decode_messages(entry, max_message_bytes=MAX_MESSAGE_BYTES)
        assert len(members) == header.messages
        decoded += members
    assert (len(broker.sends) < len(PAYLOADS)) is batching
    assert [message.payload for message in decoded] == PAYLOADS
    assert [message.properties for message in decoded] == [{"number": str(n)} for n in range(len(PAYLOADS))]
    assert [message.key for message in decoded] == [f"key-{n % 3}" for n in range(len(PAYLOADS))]
    assert [message.ordering_key for message in decoded] == [
        b"order-%d" % (n % 5) for n in range(len(PAYLOADS))
    ]
    assert [message.event_time_ms for message in decoded] == [
        1_700_000_000_000 + n for n in range(len(PAYLOADS))
    ]
    assert [message.sequence_id for message in decoded] == list(range(len(PAYLOADS)))


def produce_large(url: str) -> None:
    client = quiet_client(url)
    try:
        producer = client.create_producer(TOPIC, chunking_enabled=True)
        producer.send(bytes(2_500_000))
    finally:
        client.close()


async def test_chunks_of_the_cpp_client_are_parsed() -> None:
    broker = ScriptedBroker()
    async with running(broker) as url:
        await in_thread(produce_large, url)
    headers = [parse_header(send.entry_block) for send in broker.sends]
    assert len(headers) == 3
    assert all(send.is_chunk for send in broker.sends)
    assert [header.chunk_id for header in headers] == [0, 1, 2]
    assert {header.num_chunks for header in headers} == {3}
    assert {header.total_chunk_bytes for header in headers} == {2_500_000}
    assert len({header.chunk_uuid for header in headers}) == 1
    sizes = [len(s.entry_block) - h.payload_offset for s, h in zip(broker.sends, headers, strict=True)]
    assert sum(sizes) == 2_500_000


def consume(url: str, messages: int) -> list[tuple[bytes, dict[str, str], str, bytes]]:
    client = quiet_client(url)
    try:
        consumer = client.subscribe(TOPIC, "billing", consumer_type=pulsar.ConsumerType.Shared)
        received = []
        for _ in range(messages):
            message = consumer.receive(TIMEOUT_MS)
            received.append(
                (
                    message.data(),
                    message.properties(),
                    message.partition_key(),
                    message.message_id().serialize(),
                )
            )
            consumer.acknowledge(message)
        consumer.close()
        return received
    finally:
        client.close()


@pytest.mark.parametrize("compression", Compression)
async def test_the_cpp_client_reads_and_acks_our_entries(compression: Compression) -> None:
    single = encode_single(
        producer_name="vela",
        sequence_id=0,
        publish_time_ms=1_700_000_000_000,
        payload=b"alone" * 40,
        properties={"kind": "single"},
        key="k",
        compression=compression,
    )
    members = [OutgoingMessage(payload=b"member %d" % n, properties={"n": str(n)}, key="m") for n in range(3)]
    batch = encode_batch(
        members,
        producer_name="vela",
        sequence_id=1,
        publish_time_ms=1_700_000_000_000,
        compression=compression,
    )
    broker = ScriptedBroker(entries=[single, batch])
    async with running(broker) as url:
        received = await in_thread(consume, url, 4)
    assert [(data, properties, key) for data, properties, key, _ in received] == [
        (b"alone" * 40, {"kind": "single"}, "k"),
        (b"member 0", {"n": "0"}, "m"),
        (b"member 1", {"n": "1"}, "m"),
        (b"member 2", {"n": "2"}, "m"),
    ]
    assert [MessageId.from_bytes(data) for *_, data in received] == [
        MessageId(LEDGER_ID, 0),
        *(MessageId(LEDGER_ID, 1, -1, index) for index in range(3)),
    ]
    acked = {(ack_id.ledger_id, ack_id.entry_id) for ack in broker.acks for ack_id in ack.ids}
    assert acked == {(LEDGER_ID, 0), (LEDGER_ID, 1)}
