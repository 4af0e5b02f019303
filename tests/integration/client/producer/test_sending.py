"""The sends of a producer, and their answers."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.producer.outcomes import ALONE, BATCHED, answers, kinds, note
from tests.support.storing_peer import StoringPeer
from vela import errors
from vela.aio import Client
from vela.aio.producers.topic_producer import TopicProducer
from vela.message import MessageId
from vela.options import BatchingType, CompressionType
from vela.wire.entry import parse_header


async def test_messages_sent_alone_are_stored_alone_and_answered_in_order(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t")
    done: list[int] = []
    futures = [producer.send_async(b"%d" % n) for n in range(5)]
    for n, future in enumerate(futures):
        future.add_done_callback(partial(note, done, n))
    ids = await asyncio.gather(*futures)
    assert done == [0, 1, 2, 3, 4]
    assert [message_id.entry_id() for message_id in ids] == [0, 1, 2, 3, 4]
    assert {message_id.batch_index() for message_id in ids} == {-1}
    assert store.payloads == [b"0", b"1", b"2", b"3", b"4"]
    assert producer.last_sequence_id() == 4


async def test_everything_a_message_can_carry_reaches_the_entry(store: StoringPeer, client: Client) -> None:
    for options in (ALONE, BATCHED):
        producer = await client.create_producer("t", **options)
        await producer.send(
            b"body",
            {"a": "1", "ü": "é"},
            partition_key="key",
            ordering_key="order",
            sequence_id=40,
            event_timestamp=1234,
        )
        message = store.messages[-1]
        assert (message.payload, message.properties) == (b"body", {"a": "1", "ü": "é"})
        assert (message.key, message.ordering_key) == ("key", b"order")
        assert (message.event_time_ms, message.sequence_id) == (1234, 40)
        await producer.send(None, partition_key="key")
        assert store.messages[-1].null_value
        assert store.messages[-1].sequence_id == 41


async def test_batches_leave_when_full_and_when_their_time_has_come(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", batching_max_messages=3, **BATCHED)
    ids = [await future for future in [producer.send_async(b"%d" % n) for n in range(4)]]
    assert [(each.entry_id(), each.batch_index(), each.batch_size()) for each in ids] == [
        (0, 0, 3),
        (0, 1, 3),
        (0, 2, 3),
        (1, 0, 1),
    ]
    assert [parse_header(entry).sequence_id for entry in store.entries] == [0, 3]


async def test_a_delayed_message_is_never_in_a_batch_and_keeps_its_place(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", **BATCHED)
    futures = [
        producer.send_async(b"before"),
        producer.send_async(b"delayed", deliver_at=99_000),
        producer.send_async(b"after"),
        producer.send_async(b"nowhere", disable_replication=True),
    ]
    await producer.flush()
    assert all(future.done() for future in futures)
    assert store.payloads == [b"before", b"delayed", b"after", b"nowhere"]
    headers = [parse_header(entry) for entry in store.entries]
    assert [header.is_batch for header in headers] == [True, False, True, False]
    assert headers[1].deliver_at_ms == 99_000


async def test_key_based_batches_name_their_key(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t", batching_type=BatchingType.KeyBased, **BATCHED)
    futures = [producer.send_async(b"%d" % n, partition_key="ab"[n % 2]) for n in range(6)]
    await producer.flush()
    assert [parse_header(entry).partition_key for entry in store.entries] == ["a", "b"]
    assert store.payloads == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert [future.result().batch_index() for future in futures] == [0, 0, 1, 1, 2, 2]


async def test_chunks_are_answered_once_with_both_ends(store: StoringPeer, client: Client) -> None:
    store.peer.max_message_bytes = 1000
    producer = await client.create_producer("t", chunking_enabled=True)
    body = bytes(range(256)) * 10
    small, large, last = [producer.send_async(content) for content in (b"small", body, b"last")]
    large_id = await large
    assert (await small).first_chunk() is None
    first = large_id.first_chunk()
    assert first is not None
    assert (first.entry_id(), large_id.entry_id(), (await last).entry_id()) == (1, 3, 4)
    headers = [parse_header(entry) for entry in store.entries]
    assert [header.num_chunks for header in headers] == [0, 3, 3, 3, 0]
    assert [event.is_chunk for event in store.peer.of(events.Send)] == [False, True, True, True, False]
    assert (
        b"".join(
            entry[header.payload_offset :]
            for entry, header in zip(store.entries[1:4], headers[1:4], strict=True)
        )
        == body
    )
    assert producer.statistics().messages_sent == 3


async def test_a_message_too_large_fails_alone(store: StoringPeer, client: Client) -> None:
    store.peer.max_message_bytes = 1000
    for options in (ALONE, BATCHED):
        producer = await client.create_producer("t", **options)
        outcomes = await answers([producer.send_async(content) for content in (b"a", b"x" * 2000, b"b")])
        assert kinds(outcomes) == [MessageId, errors.MessageTooBig, MessageId]
    assert store.payloads == [b"a", b"b"] * 2


async def test_wrong_arguments_are_named_and_nothing_is_sent(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t")
    with pytest.raises(TypeError, match="bytes"):
        await producer.send("text")
    with pytest.raises(errors.InvalidConfiguration, match="properties"):
        await producer.send(b"", {"n": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="surrogates"):
        await producer.send(b"", partition_key="\ud800")
    with pytest.raises(ValueError, match="sequence_id"):
        await producer.send(b"", sequence_id=-1)
    with pytest.raises(errors.InvalidConfiguration, match="exclude each other"):
        await client.create_producer("t", batching_enabled=True, chunking_enabled=True)
    with pytest.raises(errors.InvalidConfiguration, match="batching_max_messages"):
        await client.create_producer("t", batching_max_messages=0)
    with pytest.raises(errors.InvalidConfiguration, match="crypto_key_reader"):
        await client.create_producer("t", encryption_key="k")
    assert store.entries == []


async def test_compressed_batches_contain_the_sent_messages(store: StoringPeer, client: Client) -> None:
    for compression in CompressionType:
        producer = await client.create_producer("t", compression_type=compression, **BATCHED)
        await asyncio.gather(*[producer.send_async(b"the same words %d" % n) for n in range(50)])
        assert parse_header(store.entries[-1]).compression == compression
    assert store.payloads == [b"the same words %d" % n for _ in CompressionType for n in range(50)]


async def test_statistics_count_answered_messages(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t")
    assert isinstance(producer, TopicProducer)
    await asyncio.gather(*[producer.send_async(b"12345") for _ in range(4)])
    seen = producer.statistics()
    assert (seen.messages_sent, seen.bytes_sent, seen.entries_sent, seen.messages_failed) == (4, 20, 4, 0)
    assert 0 <= seen.latency_mean_ms <= seen.latency_max_ms
    assert seen.latency_p99_ms <= seen.latency_max_ms
