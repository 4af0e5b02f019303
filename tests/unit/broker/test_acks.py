"""The broker's half of acknowledging."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from broker.core.errors import BrokerError, PersistenceFailed
from broker.core.position import LATEST
from broker.core.subscription.types import SubscriptionType
from broker.storage.cursors import cursors
from broker.subscription.requests import AckRequest
from tests.support.broker_harness import ConsumerProbe, eventually
from tests.support.memory_broker import memory_broker
from tests.support.memory_storage import MemoryStorage
from tests.unit.broker.test_receiving import settled

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


@pytest.mark.row("S4.4")
async def test_a_single_ack_acks_one_message_and_leaves_the_others() -> None:
    for type_ in (SHARED, EXCLUSIVE):
        async with memory_broker() as run:
            consumer = await run.consumer(type_=type_, permits=10)
            positions = await (await run.producer()).publish(5)
            await consumer.has(5)
            assert await consumer.ack_durably(positions[2]) is None
            assert consumer.consumer is not None
            consumer.consumer.detach()
            again = await run.consumer(type_=type_, permits=10)
            await again.has(4)
            assert again.positions == [p for p in positions if p != positions[2]]


@pytest.mark.row("S4.5")
async def test_a_cumulative_ack_acks_everything_before_it_on_its_topic_and_nothing_on_shared() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        positions = await producer.publish(5)
        exclusive = await run.consumer(subscription="e", type_=EXCLUSIVE, permits=10)
        shared = await run.consumer(subscription="s", type_=SHARED, permits=10)
        for consumer in (exclusive, shared):
            await consumer.has(5)
            assert await consumer.ack_durably(positions[3], cumulative=True) is None
        assert run.subscription(subscription="e").cursor.mark_delete == positions[3]
        assert run.subscription(subscription="e").cursor.backlog_messages == 1
        assert run.subscription(subscription="s").cursor.backlog_messages == 5
        assert run.subscription(subscription="s").counters.ignored_acks == 1


@pytest.mark.row("S4.6")
async def test_part_of_a_batch_is_acked_and_the_rest_is_redelivered() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        consumer = await run.consumer(permits=20)
        [position] = await (await run.producer()).publish(1, messages=10)
        await consumer.has(1)
        for member in (0, 4, 9):
            await consumer.ack_durably(position, remaining=(1 << 10) - 1 & ~(1 << member))
        assert consumer.consumer is not None
        consumer.consumer.detach()
        again = await run.consumer(permits=7)
        await again.has(1)
        assert again.deliveries[0].remaining == 0b0111101110
        assert again.consumer is not None
        assert again.consumer.dispatch.permits.balance == 0
    async with memory_broker(storage) as run:
        after_restart = await run.consumer(permits=20)
        await after_restart.has(1)
        assert after_restart.deliveries[0].remaining == 0b0111101110


@pytest.mark.row("S4.7")
async def test_a_batch_of_which_no_ack_was_sent_is_sent_again_whole() -> None:
    """Without batch-index acks, a client sends no ack for a batch until the last member is acked. A cumulative ack
    inside a batch names the entry before the batch.
    """
    async with memory_broker() as run:
        consumer = await run.consumer(type_=EXCLUSIVE, permits=40)
        before, batch = await (await run.producer()).publish(2, messages=10)
        await consumer.has(2)
        await consumer.ack_durably(before, cumulative=True)
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        await consumer.has(3)
        assert consumer.positions == [before, batch, batch]
        assert consumer.deliveries[2].remaining is None


@pytest.mark.row("S4.12")
async def test_an_ack_is_answered_when_it_is_stored_and_not_before() -> None:
    async with memory_broker(flushes=False) as run:
        consumer = await run.consumer(permits=10)
        first, second = await (await run.producer()).publish(2)
        await consumer.has(2)
        answers: list[BrokerError | None] = []
        assert consumer.consumer is not None
        consumer.consumer.ack([AckRequest(first)], cumulative=False)
        consumer.consumer.ack([AckRequest(second)], cumulative=False, on_durable=answers.append)
        await settled(run)
        assert run.subscription().cursor.backlog_messages == 0
        assert answers == []
        await run.flushed()
        assert answers == [None]
        assert run.storage.cursor_of("s").row.cursor.mark_delete == second


@pytest.mark.row("S4.13", "I3")
async def test_acks_that_were_not_stored_are_lost_in_a_crash_and_stored_ones_are_not() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage, flushes=False) as run:
        consumer = await run.consumer(permits=10)
        positions = await (await run.producer()).publish(4)
        await consumer.has(4)
        consumer.ack(positions[1])
        await run.flushed()
        consumer.ack(positions[0], positions[2])
        assert run.subscription().cursor.backlog_messages == 1
    async with memory_broker(storage) as run:
        assert run.storage is storage
        again: ConsumerProbe = await run.consumer(permits=10)
        await again.has(3)
        assert again.positions == [positions[0], positions[2], positions[3]]
        assert run.subscription().cursor.backlog_messages == 3


async def test_a_wait_for_stored_cursors_ends_although_acks_keep_coming() -> None:
    """At thousands of acks a second, some cursor is always dirty when a flush ends."""
    async with memory_broker(flushes=False) as run:
        consumer = await run.consumer(permits=10)
        positions = await (await run.producer()).publish(10)
        await consumer.has(10)
        flushes: list[int] = []
        flush = cursors.flush

        async def acked_meanwhile(*args: Any, **named: Any) -> set[int]:
            flushes.append(len(flushes))
            topics = await flush(*args, **named)
            consumer.ack(positions[len(flushes)])
            return topics

        with patch.object(cursors, "flush", acked_meanwhile):
            consumer.ack(positions[0])
            await run.flushed()
        assert len(flushes) == 1
        assert run.storage.cursor_of("s").row.cursor.mark_delete == positions[0]
        await run.flushed()
        assert run.storage.cursor_of("s").row.cursor.mark_delete == positions[1]


@pytest.mark.row("I1")
async def test_a_message_with_a_receipt_reaches_every_existing_subscription() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        for name in ("a", "b"):
            await run.consumer(subscription=name)
        positions = await (await run.producer()).publish(20)
    async with memory_broker(storage, tail_cache_bytes=0) as run:
        for name in ("a", "b"):
            consumer = await run.consumer(subscription=name, permits=100)
            await consumer.has(20)
            assert consumer.positions == positions


async def test_an_ack_whose_counts_cannot_be_read_returns_its_messages() -> None:
    """Most clients ask for no receipt. If such a client were not told, it would keep the message for ever."""
    async with memory_broker(ledger_max_entries=1) as run:
        consumer = await run.consumer(permits=10)
        producer = await run.producer()
        (first,) = await producer.publish(1)
        await producer.publish(1)
        await consumer.has(2)
        run.topic().log.index.evict(LATEST, 1)
        unreadable = AsyncMock(side_effect=PersistenceFailed("a file cannot be read"))
        with patch.object(run.topic().reader, "load_index", unreadable):
            consumer.ack(first)
            await eventually(lambda: consumer.closed, "the consumer to be closed")
        again = await run.consumer(permits=10)
        await again.has(2)
        assert await again.ack_durably(first) is None
