"""Segments open, close and leave the views without ever delaying an append (design 4)."""

from __future__ import annotations

import psycopg
import pytest

from broker.storage import topics as store
from tests.support.broker_harness import BrokerRun, ManualClock, one_row, rows, running


async def test_open_ledgers_move_to_the_next_segment_with_their_topics_next_append(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producers = [await run.producer(f"t{number}") for number in range(3)]
        for producer in producers:
            await producer.publish(4)
        run.broker.services.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        await run.broker.services.segments.turn()
        for producer in producers[:2]:
            await producer.publish(3)
        assert rows(broker_url, "SELECT id, state FROM vela_segment ORDER BY id") == [
            (1, "closed"),
            (2, "open"),
        ]
        for number, expected in enumerate((7, 7, 4)):
            consumer = await run.consumer(f"t{number}", permits=100)
            await consumer.has(expected)
            assert consumer.payloads == [b"%d" % each for each in range(expected)]
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry_2") == (6,)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (18,)


async def test_a_reader_that_holds_the_views_delays_neither_appends_nor_the_next_segment(
    broker_url: str,
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producer = await run.producer()
        await producer.publish(2)
        segments = run.broker.services.segments
        segments._opened_ms = clock.now_ms()
        with psycopg.connect(broker_url) as reader:
            reader.execute("SELECT count(*) FROM vela_entry")
            clock.advance(1000)
            await segments.turn()
            await producer.publish(2)
            assert (segments.open_id, segments._views_stale) == (2, True)
        await segments.turn()
        assert (segments.open_id, segments._views_stale) == (2, False)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (4,)


async def test_a_segment_under_a_readers_open_transaction_is_dropped_later(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(2)
    async with run.broker.services.pool.use() as connection:
        spare = await store.open_segment(connection, 1)
        assert await store.refresh_entry_views(connection, lock_timeout_ms=200, read_role="")
    drop = f"SET lock_timeout = '100ms'; SELECT vela_drop_segment_v1({spare})"
    with psycopg.connect(run.database_url) as reader:
        reader.execute("SELECT count(*) FROM vela_entry")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            rows(run.database_url, drop)
        await producer.publish(2)
    rows(run.database_url, drop)
    assert rows(run.database_url, "SELECT id FROM vela_segment") == [(1,)]
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (4,)


async def test_a_next_segment_that_cannot_be_opened_leaves_the_current_one_in_use(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producer = await run.producer()
        await producer.publish(1)
        rows(broker_url, "ALTER TABLE vela_segment ADD CONSTRAINT test_one CHECK (id = 1)")
        run.broker.services.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        with pytest.raises(psycopg.errors.CheckViolation):
            await run.broker.services.segments.turn()
        await producer.publish(2)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry_1") == (3,)
