"""Receiving from a whole Vela: order, corrupt entries, permits, lost links."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.acceptance.client.consumer.consuming import (
    all_acknowledged,
    becomes,
    broker_has_permits,
    data,
    link_of,
    numbers,
    publish,
    publish_with_apache,
    take,
)
from tests.acceptance.client.publishing import publish_entries
from tests.support.keys import write_key_pair
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from tests.unit.client.entries import batch, compose, metadata, single
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.encryption.key_reader import CryptoKeyReader
from vela.errors import NotConnected, ReadError
from vela.message import Message, MessageId
from vela.options import (
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
)
from vela.wire.binary.enums import ValidationError
from vela.wire.compression import Compression


@pytest.mark.row("S0.25")
async def test_messages_of_apaches_client_arrive_in_order(
    client: Client, apache: pulsar.Client, topic: str
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=20)
    sent = numbers(100)
    expected: list[bytes] = []
    for codec in ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"):
        for batching in (True, False):
            await publish_with_apache(
                apache,
                topic,
                sent,
                batching_enabled=batching,
                batching_max_messages=10,
                compression_type=getattr(pulsar.CompressionType, codec),
            )
            expected += sent
    assert data(await take(consumer, len(expected))) == expected
    await becomes(lambda: all_acknowledged(consumer), "everything acknowledged")


@pytest.mark.row("S0.29")
async def test_iterating_and_listening_both_get_every_message_in_order(client: Client, topic: str) -> None:
    seen: list[bytes] = []
    consumer = await client.subscribe(topic, "iterating", receiver_queue_size=10)

    def listen(view: Any, message: Message) -> None:
        seen.append(message.data())
        view.acknowledge(message)

    listening = await client.subscribe(topic, "listening", message_listener=listen, receiver_queue_size=10)
    await publish(client, topic, numbers(100), size=7)
    iterated = []
    async with asyncio.timeout(10):
        async for message in consumer:
            iterated.append(message.data())
            consumer.acknowledge(message)
            if len(iterated) == 100:
                break
    assert iterated == numbers(100)
    await until(lambda: len(seen) == 100, "a hundred calls")
    assert seen == numbers(100)
    await becomes(lambda: all_acknowledged(listening), "the listener's acks")


@pytest.mark.row("S0.18", "S0.19")
async def test_a_corrupt_entry_is_acked_and_its_permit_is_granted_again(
    client: Client, topic: str, shared_vela: VelaProcess
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=100)
    garbage = compose(
        metadata(compression=Compression.LZ4.value, uncompressed_size=500, num_messages_in_batch=10),
        b"\xff" * 99,
    )
    cut_off = batch([b"x" * 20] * 10, cut=45)
    await publish_entries(client, topic, *[(garbage, 10), (cut_off, 10)] * 30, (single(b"good"), 1))
    async with asyncio.timeout(20):
        while (message := await consumer.receive()).data() != b"good":
            consumer.acknowledge(message)
        consumer.acknowledge(message)
    assert isinstance(consumer, TopicConsumer)
    assert consumer.counters.discards == {
        ValidationError.DECOMPRESSION_ERROR: 30,
        ValidationError.BATCH_DESERIALIZE_ERROR: 30,
    }
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
    await broker_has_permits(shared_vela, consumer, 100)


@pytest.mark.row("S0.40", "S0.46")
async def test_the_broker_sends_no_more_than_the_queue_size(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
    await publish(client, topic, numbers(100))
    await until(lambda: len(consumer.queue) == 10, "a full queue")
    with pytest.raises(AssertionError):
        await until(lambda: len(consumer.queue) > 10, "more than the queue holds", timeout_s=0.2)
    await take(consumer, 5)
    await until(lambda: len(consumer.queue) == 10, "a full queue again")
    assert data(await take(consumer, 95)) == numbers(100)[5:]


async def test_a_batch_receive_returns_as_many_messages_as_its_policy_allows(
    client: Client, topic: str
) -> None:
    policy = ConsumerBatchReceivePolicy(30, 1_000_000, 200)
    consumer = await client.subscribe(topic, "s", batch_receive_policy=policy)
    await publish(client, topic, numbers(70))
    await until(lambda: len(consumer.queue) == 70, "all of them")
    sizes = []
    while messages := await consumer.batch_receive():
        sizes.append(len(messages))
        consumer.acknowledge(messages)
    assert sizes == [30, 30, 10]
    await becomes(lambda: all_acknowledged(consumer), "all of them acknowledged")


@pytest.mark.row("S0.44")
async def test_unacked_messages_are_redelivered_after_a_lost_connection(
    client: Client, topic: str, shared_vela: VelaProcess
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=50)
    await publish(client, topic, numbers(30))
    await take(consumer, 10)
    await take(consumer, 10, acknowledge=False)
    link = link_of(consumer)
    link.abort(ReadError("cut by the test"))
    await until(lambda: consumer.is_connected() and link_of(consumer) is not link, "the new link")
    again = await take(consumer, 20)
    assert data(again) == numbers(30)[10:]
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
    await broker_has_permits(shared_vela, consumer, 50)


async def test_without_a_connection_requests_are_refused_and_a_receive_waits(
    client: Client, topic: str
) -> None:
    consumer = await client.subscribe(topic, "s")
    link = link_of(consumer)
    receiving = asyncio.create_task(consumer.receive())
    link.abort(ReadError("cut by the test"))
    for call in (consumer.seek(MessageId.earliest), consumer.unsubscribe()):
        with pytest.raises(NotConnected):
            await call
    assert (await consumer.get_last_message_id()).entry_id() == -1
    await publish(client, topic, [b"later"])
    assert (await asyncio.wait_for(receiving, 10)).data() == b"later"


async def test_chunked_messages_are_delivered_whole(
    client: Client, apache: pulsar.Client, topic: str
) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=5)
    large = [bytes([number]) * (6 << 20) for number in range(2)]
    await publish_with_apache(apache, topic, large, chunking_enabled=True)
    await publish(client, topic, [b"after"])
    messages = await take(consumer, 3)
    assert data(messages) == [*large, b"after"]
    assert messages[0].message_id().first_chunk() is not None
    await becomes(lambda: all_acknowledged(consumer), "every chunk acknowledged")
    await consumer.seek(messages[0].message_id())
    assert data(await take(consumer, 2)) == [large[1], b"after"]


@pytest.mark.row("S0.16")
async def test_the_failure_action_decides_what_becomes_of_an_encrypted_message(
    client: Client, apache: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    public, private = write_key_pair(tmp_path)
    reader = CryptoKeyReader(public, private)
    readable = await client.subscribe(topic, "with-key", crypto_key_reader=reader)
    by_action = {
        action: await client.subscribe(topic, action.name, crypto_failure_action=action)
        for action in ConsumerCryptoFailureAction
    }
    await publish_with_apache(
        apache,
        topic,
        numbers(20),
        encryption_key="k",
        crypto_key_reader=pulsar.CryptoKeyReader(public, private),
        batching_enabled=True,
        compression_type=pulsar.CompressionType.LZ4,
    )
    await publish(client, topic, [b"plain"])
    assert data(await take(readable, 21)) == [*numbers(20), b"plain"]
    for action in (ConsumerCryptoFailureAction.FAIL, ConsumerCryptoFailureAction.DISCARD):
        assert data(await take(by_action[action], 1)) == [b"plain"]
    await becomes(lambda: all_acknowledged(by_action[ConsumerCryptoFailureAction.DISCARD]), "its discards")
    assert not await all_acknowledged(by_action[ConsumerCryptoFailureAction.FAIL])
    consumed = by_action[ConsumerCryptoFailureAction.CONSUME]
    sealed = await take(consumed, 1)
    context = sealed[0].encryption_context()
    assert context is not None
    assert context.is_decryption_failed()
    assert context.batch_size() >= 1
