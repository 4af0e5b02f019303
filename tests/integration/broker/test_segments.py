"""Segments open, close and leave the views without ever delaying an append."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from broker.storage.topics import topics as store
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, one_row, rows, running


async def test_open_ledgers_move_to_the_next_segment_with_their_topics_next_append(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producers = [await run.producer(f"t{number}") for number in range(3)]
        for producer in producers:
            await producer.publish(4)
        run.broker.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        await run.broker.segments.turn()
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


async def test_a_reader_that_locks_the_views_delays_neither_appends_nor_the_next_segment(
    broker_url: str,
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producer = await run.producer()
        await producer.publish(2)
        segments = run.broker.segments
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
    async with run.broker.pool.use() as connection:
        spare = await store.open_segment(connection, 1)
        await store.close_segment(connection, spare, 1)
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
        run.broker.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        with pytest.raises(psycopg.errors.CheckViolation):
            await run.broker.segments.turn()
        await producer.publish(2)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry_1") == (3,)


async def test_the_ledgers_of_many_topics_move_to_the_next_segment_in_one_statement(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producers = [await run.producer(f"t{number}") for number in range(40)]
        for producer in producers:
            await producer.publish(2)
        run.broker.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        await run.broker.segments.turn()
        statements = count_statements(monkeypatch, "INTO vela_ledger")
        for producer in producers:
            producer.send()
        for producer in producers:
            await producer.has_receipts(3)
        assert len(statements) <= 2  # at most one for each lane of the writer
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry_2") == (40,)
        sealed = "SELECT entries, messages, count(*) FROM vela_ledger WHERE state = 'sealed' GROUP BY 1, 2"
        assert rows(broker_url, sealed) == [(2, 2, 40)]
        opened = "SELECT entries_before, messages_before, count(*) FROM vela_ledger WHERE state = 'open' GROUP BY 1, 2"
        assert rows(broker_url, opened) == [(2, 2, 40)]


async def test_a_ledger_that_the_server_refuses_to_open_costs_no_other_topic_its_messages(
    broker_url: str,
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, segment_max_age_ms=1000) as run:
        producers = [await run.producer(f"t{number}") for number in range(5)]
        for producer in producers:
            await producer.publish(1)
        run.broker.segments._opened_ms = clock.now_ms()
        clock.advance(1000)
        await run.broker.segments.turn()
        refused = run.topic("t3").topic_id
        rows(
            broker_url,
            f"ALTER TABLE vela_ledger ADD CONSTRAINT test_no CHECK (topic_id <> {refused} OR segment_id = 1)",
        )
        for producer in producers:
            producer.send()
        for number, producer in enumerate(producers):
            if number == 3:
                await eventually(lambda: producers[3].failed, "the refusal")
            else:
                await producer.has_receipts(2)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry_2") == (4,)


def count_statements(monkeypatch: pytest.MonkeyPatch, part: str) -> list[str]:
    """Collect the statements of this process that contain `part`."""
    seen: list[str] = []
    execute = psycopg.AsyncCursor.execute

    async def counted(self: psycopg.AsyncCursor[Any], query: Any, *rest: Any, **options: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        if part in text:
            seen.append(text)
        return await execute(self, query, *rest, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    return seen


def test_autovacuum_leaves_alone_rows_that_were_only_inserted(broker_url: str) -> None:
    names = rows(
        broker_url,
        "SELECT c.relname, bool_or(a.attname = 'data' AND a.attstattarget = 0), max(a.attstattarget) FROM pg_class c"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
        " WHERE c.reloptions @> '{autovacuum_vacuum_insert_threshold=-1}' GROUP BY 1 ORDER BY 1",
    )
    assert names == [("vela_entry_1", True, 10), ("vela_entry_1_rest", True, 10)]
