"""A producer of several partitions: routing, lazy starts, growth, shared limits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

import vela
from broker.doors.binary.wire import events
from tests.support.scripted_peer import Link, ScriptedPeer
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.producers.partitioned_producer import PartitionedProducer
from vela.message import Message, MessageId
from vela.options import HashingScheme, PartitionsRoutingMode, ProducerAccessMode
from vela.wire.binary.enums import ServerError
from vela.wire.key_hash import java_string_hash


class Partitions:
    """The number of partitions that the peer reports."""

    def __init__(self, peer: ScriptedPeer, count: int) -> None:
        self.count = count
        peer.on(
            events.PartitionMetadata,
            lambda link, event: link.engine.send_partition_metadata(event.request_id, self.count),
        )


@pytest.fixture
def partitions(store: StoringPeer) -> Partitions:
    return Partitions(store.peer, 4)


@pytest.fixture
async def client(store: StoringPeer, partitions: Partitions) -> AsyncIterator[Client]:
    async with Client(store.peer.url, initial_backoff_ms=1, operation_timeout_seconds=5) as client:
        yield client


def opened(store: StoringPeer) -> list[str]:
    return sorted(event.topic.rpartition("/")[2] for event in store.peer.of(events.OpenProducer))


async def test_messages_without_a_key_take_turns_and_ids_say_where_they_lie(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t")
    assert opened(store) == [f"t-partition-{n}" for n in range(4)]
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(8)])
    assert Counter(each.partition() for each in ids) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert producer.is_connected()
    assert producer.last_sequence_id() == 1
    assert producer.statistics().messages_sent == 8


async def test_a_batch_fills_one_partition_before_the_next(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t", batching_enabled=True, batching_max_messages=3)
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(9)])
    assert [each.partition() for each in ids[::3]] == [(ids[0].partition() + n) % 4 for n in range(3)]
    assert len(store.entries) == 3


async def test_keys_go_by_the_hash_that_was_asked_for(client: Client) -> None:
    producer = await client.create_producer("t", hashing_scheme=HashingScheme.JavaStringHash)
    for key in ("a", "order-7", "ключ"):
        assert (await producer.send(b"x", partition_key=key)).partition() == java_string_hash(key) % 4


async def test_single_partition_routing_stays_on_one_partition(client: Client) -> None:
    producer = await client.create_producer(
        "t", message_routing_mode=PartitionsRoutingMode.UseSinglePartition
    )
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(5)])
    assert len({each.partition() for each in ids}) == 1


async def test_a_router_of_the_application_sees_the_message(client: Client) -> None:
    seen: list[tuple[bytes, str, dict[str, str], int]] = []

    def route(message: Message, partitions: int) -> int:
        assert abs(message.publish_timestamp() - time.time() * 1000) < 60_000
        seen.append((message.data(), message.partition_key(), message.properties(), partitions))
        return int(message.properties()["to"])

    producer = await client.create_producer("t", message_router=route)
    message_id = await producer.send(b"x", {"to": "2"}, partition_key="k")
    assert message_id.partition() == 2
    assert seen == [(b"x", "k", {"to": "2"}, 4)]
    with pytest.raises(errors.InvalidConfiguration, match="message_router returned partition 4"):
        await producer.send(b"x", {"to": "4"})


async def test_the_limit_over_partitions_is_shared_out(store: StoringPeer, client: Client) -> None:
    store.on_send = store.ignore
    producer = await client.create_producer(
        "t", max_pending_messages=100, max_pending_messages_across_partitions=8, send_timeout_millis=200
    )
    futures = [producer.send_async(b"x", partition_key="same") for _ in range(3)]
    assert isinstance(futures[2].exception(), errors.ProducerQueueIsFull)
    assert [type(each) for each in await asyncio.gather(*futures, return_exceptions=True)] == [
        errors.Timeout,
        errors.Timeout,
        errors.ProducerQueueIsFull,
    ]


async def test_a_lazy_start_opens_partitions_when_they_are_needed(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t", lazy_start_partitioned_producers=True)
    assert len(opened(store)) == 1
    futures = [producer.send_async(b"%d" % n) for n in range(8)]
    await producer.flush()
    assert [future.result().partition() for future in futures[:4]] != [0, 0, 0, 0]
    assert len(opened(store)) == 4
    assert sorted(store.payloads) == [b"%d" % n for n in range(8)]


async def test_a_lazy_start_of_another_partition_does_not_change_the_name(
    store: StoringPeer, client: Client
) -> None:
    targets = iter([3, 0])
    producer = await client.create_producer(
        "t", lazy_start_partitioned_producers=True, message_router=lambda _message, _count: next(targets)
    )
    name = producer.producer_name()
    sending = producer.send_async(b"x")
    assert (producer.producer_name(), bool(name)) == (name, True)
    await sending
    assert producer.producer_name() == name
    assert opened(store) == ["t-partition-0", "t-partition-3"]


async def test_an_exclusive_producer_opens_the_other_partitions_after_the_first(
    store: StoringPeer, client: Client
) -> None:
    """Otherwise two programs could each get some of the partitions, and wait for the others without end."""
    queued: list[tuple[Link, events.OpenProducer]] = []

    def queue(link: Link, event: events.OpenProducer) -> None:
        if event.topic.endswith("-0"):
            queued.append((link, event))
        link.engine.send_producer_success(event.request_id, name="p", ready=not event.topic.endswith("-0"))

    store.peer.on(events.OpenProducer, queue)
    creating = asyncio.ensure_future(
        client.create_producer("t", access_mode=ProducerAccessMode.WaitForExclusive)
    )
    await until(lambda: queued, "its place in the queue")
    await asyncio.sleep(0.1)
    assert opened(store) == ["t-partition-0"]
    link, event = queued[0]
    link.engine.send_producer_success(event.request_id, name="p", topic_epoch=1)
    link.flush()
    assert (await creating).is_connected()
    assert opened(store) == [f"t-partition-{n}" for n in range(4)]


async def test_a_lazy_start_that_fails_fails_its_messages_and_is_tried_again(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", lazy_start_partitioned_producers=True)
    refuses = store.peer
    refuses.on(
        events.OpenProducer,
        lambda link, event: link.engine.send_error(event.request_id, ServerError.PRODUCER_BUSY, "no"),
    )
    outcomes = await asyncio.gather(*[producer.send_async(b"x") for _ in range(4)], return_exceptions=True)
    assert sum(isinstance(each, errors.ProducerBusy) for each in outcomes) == 3
    StoringPeer(refuses)
    # The partition that stayed open must reconnect, because the new store learns the name of its producer that way.
    refuses.link.drop()
    again = await asyncio.gather(*[producer.send_async(b"x") for _ in range(4)])
    assert all(isinstance(each, MessageId) for each in again)
    assert producer.statistics().messages_failed == 3


async def test_partitions_that_are_added_are_used(
    store: StoringPeer, client: Client, partitions: Partitions
) -> None:
    producer = await client.create_producer("t", partitions_update_interval_seconds=0.02)
    assert isinstance(producer, PartitionedProducer)
    partitions.count = 6
    await until(lambda: producer.partitions() == 6, "two more partitions")
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(6)])
    assert {each.partition() for each in ids} == set(range(6))
    partitions.count = 2  # the producer never uses fewer partitions
    await producer.update_partitions()
    assert producer.partitions() == 6
    first, *later = store.peer.of(events.PartitionMetadata)
    assert first.create
    assert not any(each.create for each in later), "looking must not create a deleted topic again"


async def test_one_refused_partition_refuses_the_producer_and_closes_the_others(
    store: StoringPeer, client: Client
) -> None:
    def admit(link: Link, event: events.OpenProducer) -> None:
        if event.topic.endswith("-2"):
            link.engine.send_error(event.request_id, ServerError.TOPIC_TERMINATED_ERROR, "over")
        else:
            link.engine.send_producer_success(event.request_id, name="p")

    store.peer.on(events.OpenProducer, admit)
    with pytest.raises(errors.TopicTerminated):
        await client.create_producer("t")
    assert store.peer.count(events.CloseProducer) == 3


async def test_closing_closes_every_partition(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t", batching_enabled=True, batching_max_publish_delay_ms=60_000)
    futures = [producer.send_async(b"x", partition_key=str(n)) for n in range(20)]
    await producer.close()
    assert all(future.result().ledger_id() > 0 for future in futures)
    assert store.peer.count(events.CloseProducer) == 4
    with pytest.raises(errors.AlreadyClosed):
        await producer.send(b"x")
    with pytest.raises(errors.AlreadyClosed):
        await producer.flush()


async def test_a_router_that_fails_ends_each_send_async_with_its_error(
    store: StoringPeer, partitions: Partitions
) -> None:
    client = await asyncio.to_thread(vela.Client, store.peer.url)
    results: list[vela.Result] = []

    def route(message: Message, count: int) -> int:
        return {b"far": count}[message.data()]

    def send() -> None:
        producer = client.create_producer(
            "t", message_router=route, max_pending_messages=1, block_if_queue_full=True
        )
        for payload in (b"far", b"unknown", b"far"):
            producer.send_async(payload, lambda result, _: results.append(result))

    threading.Thread(target=send, daemon=True).start()
    await until(lambda: len(results) == 3, "three callbacks")
    wrong, failed = vela.Result.InvalidConfiguration, vela.Result.UnknownError
    assert results == [wrong, failed, wrong]
    await asyncio.to_thread(client.close)
