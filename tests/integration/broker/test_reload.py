"""A broker that is killed, and the next one: durable acks stay, and everything else is delivered again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.log.reader import TopicReader
from tests.support.broker_harness import START_MS, BrokerRun, ManualClock, new_run, one_row, rows, running


@pytest.mark.parametrize("seed", range(3))
async def test_durably_acked_messages_are_not_redelivered_and_all_others_are(
    broker_url: str, seed: int
) -> None:
    chance = random.Random(seed)
    acked: set[Position] = set()
    async with running(broker_url, ledger_max_entries=40) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=1000)
        positions = await producer.publish(200)
        await consumer.has(200)
        for _ in range(6):
            some = chance.sample(positions, 15)
            assert await consumer.ack_durably(*some) is None
            acked |= set(some)
        consumer.ack(*chance.sample(positions, 20))  # not flushed, so these messages may be redelivered
        maybe = {each for each in positions if run.subscription().cursor.is_acked(each)} - acked
    async with running(broker_url) as again:
        consumer = await again.consumer(permits=1000)
        subscription = again.subscription()
        backlog = subscription.cursor.backlog_messages
        await consumer.has(backlog)
        assert not set(consumer.positions) & acked
        assert set(positions) - acked - maybe <= set(consumer.positions)
        assert len(set(consumer.positions)) == len(consumer.positions) == backlog
        await subscription.moves.with_index(lambda: None)
        recounted = await recount(again)
        assert recounted == subscription.cursor.totals


async def recount(run: BrokerRun) -> object:
    """Return the cursor's totals, counted from its bitmaps alone."""
    found: list[object] = []
    cursor = run.subscription().cursor
    await run.subscription().moves.with_index(lambda: found.append(cursor.recount()))
    return found[-1]


async def test_durably_acked_messages_of_a_batch_are_not_redelivered(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        (position,) = await producer.publish(1, messages=10)
        await consumer.has(1)
        assert await consumer.ack_durably(position, remaining=0b1111100000) is None
    async with running(broker_url) as again:
        consumer = await again.consumer(permits=100)
        await consumer.has(1)
        assert consumer.deliveries[0].remaining == 0b1111100000
        assert again.subscription().cursor.backlog_messages == 5
        assert await consumer.ack_durably(position, remaining=0b1110011111) is None
        assert again.subscription().cursor.backlog_messages == 3


async def test_a_clean_stop_stores_the_last_acks_and_closes_every_connection(broker_url: str) -> None:
    run = await new_run(broker_url)
    await run.start()
    producer = await run.producer()
    consumer = await run.consumer(permits=100)
    positions = await producer.publish(10)
    await consumer.has(10)
    consumer.ack(*positions[:9])
    await run.stop()
    assert producer.closed == [None]
    assert consumer.closed
    assert one_row(broker_url, "SELECT acked_messages FROM vela_cursor") == (9,)
    left = one_row(
        broker_url,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name LIKE 'vela broker%' AND datname = current_database()",
    )
    assert left == (0,)


@pytest.mark.parametrize("type_", list(SubscriptionType))
async def test_a_subscription_of_any_type_is_loaded_again(broker_url: str, type_: SubscriptionType) -> None:
    async with running(broker_url, failover_delay_ms=0) as run:
        await run.consumer(type_=type_)
        assert one_row(broker_url, "SELECT type FROM vela_subscription") == (type_.value,)
    async with running(broker_url, failover_delay_ms=0) as again:
        await (await again.producer()).publish(1)
        assert again.subscription().type is type_
        consumer = await again.consumer(type_=type_, permits=1)
        await consumer.has(1)


async def test_ids_counts_and_append_times_go_on_where_they_were(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock(START_MS)) as run:
        first = await (await run.producer()).publish(3)
    async with running(broker_url, clock=ManualClock(START_MS - 1000)) as again:
        second = await (await again.producer()).publish(2)
    assert [position.entry_id for position in [*first, *second]] == [0, 1, 2, 3, 4]
    assert rows(
        broker_url,
        "SELECT count(DISTINCT ledger_id), max(cumulative_messages), min(append_ms), max(append_ms) FROM vela_entry",
    ) == [(1, 5, START_MS, START_MS)]


async def test_acks_whose_counts_must_be_read_count_before_the_next_consumer_attaches(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        await run.consumer()
        positions = await producer.publish(20)
    may_load = asyncio.Event()
    load_index = TopicReader.load_index

    async def when_allowed(self: TopicReader, ranges: Iterable[tuple[int, int, int]]) -> None:
        await may_load.wait()
        await load_index(self, ranges)

    async with running(broker_url) as run:
        first = await run.consumer()
        monkeypatch.setattr(TopicReader, "load_index", when_allowed)
        first.ack(positions[5])  # no part of the log is in memory yet
        first.ack(positions[7])
        assert first.consumer is not None
        first.consumer.detach()
        attaching = asyncio.create_task(run.consumer(permits=100))
        _, pending = await asyncio.wait((attaching,), timeout=0.2)
        assert pending, "it attached before the acks were applied"
        may_load.set()
        second = await attaching
        await second.has(18)
        assert second.positions == [each for each in positions if each not in (positions[5], positions[7])]
