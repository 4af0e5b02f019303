"""The points that a broker writes every 10 s: the messages published and acked, and no points for idle topics."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from broker.core.topic_name import TopicName
from broker.process.reports import reporter
from broker.storage.history.points import PointRow, add_points
from tests.support.broker_harness import (
    START_MS,
    BrokerRun,
    ManualClock,
    eventually,
    new_run,
    one_row,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment

BUCKET_MS = 10_000
T = TopicName.parse("t")
OF_TOPIC = """
    SELECT (at_ms - %s) / 10000, messages_in, messages_out, messages_acked, messages_redelivered, backlog_before,
           backlog
    FROM vela_stats_point_10s WHERE subscription_id = 0 ORDER BY at_ms, topic_id"""
OF_SUBSCRIPTIONS = """
    SELECT (p.at_ms - %s) / 10000, s.name, p.messages_in, p.messages_out, p.messages_acked, p.backlog_before, p.backlog
    FROM vela_stats_point_10s p JOIN vela_subscription s ON s.id = p.subscription_id ORDER BY p.at_ms, s.name"""


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at the beginning of a bucket."""
    return ManualClock(START_MS)


@pytest.fixture
async def run(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BrokerRun]:
    """A broker that reports, and writes a bucket, when the test says so."""
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    async with running(broker_url, clock=clock) as started:
        yield started


async def bucket(run: BrokerRun, clock: ManualClock) -> None:
    """End the bucket, and write it with the next turn of the report."""
    clock.advance(BUCKET_MS)
    await run.broker.reporter._report()
    await run.broker.reporter.history.write()


async def test_a_bucket_counts_only_its_own_traffic(run: BrokerRun, clock: ManualClock) -> None:
    consumer = await run.consumer(permits=100)
    producer = await run.producer()
    await bucket(run, clock)
    await producer.publish(5)
    await consumer.has(5)
    consumer.ack(*consumer.positions[:3])
    await bucket(run, clock)
    await bucket(run, clock)
    consumer.ack(consumer.positions[3])
    await bucket(run, clock)
    assert rows(run.database_url, OF_TOPIC, START_MS) == [(1, 5, 5, 3, 0, 0, 2), (3, 0, 0, 1, 0, 2, 1)]
    assert rows(run.database_url, OF_SUBSCRIPTIONS, START_MS) == [
        (1, "s", None, 5, 3, 0, 2),
        (3, "s", None, 0, 1, 2, 1),
    ]
    bytes_in, stored = one_row(
        run.database_url, "SELECT bytes_in, stored_bytes FROM vela_stats_point_10s WHERE messages_in = 5"
    )
    assert bytes_in == stored == run.topic().log.ledgers.total_bytes


async def test_a_bucket_counts_how_long_acks_took(run: BrokerRun, clock: ManualClock) -> None:
    consumer = await run.consumer(permits=100)
    producer = await run.producer()
    await producer.publish(5)
    await consumer.has(5)
    clock.advance(40)
    consumer.ack(*consumer.positions[:3])
    await bucket(run, clock)
    consumer.ack(consumer.positions[3])
    await bucket(run, clock)
    assert rows(
        run.database_url,
        "SELECT ack_latencies FROM vela_stats_point_10s WHERE subscription_id > 0 ORDER BY at_ms",
    ) == [([0] * 6 + [3],), ([0] * 14 + [1],)]
    late = PointRow(1, 7, None, None, 0, 1, 0, 0, 0, 0, None, [1, 2])
    async with run.broker.pool.use() as connection:
        # The minutes of both buckets have been rolled up already, so both count in one later row.
        await connection.execute(
            "UPDATE vela_stats_progress SET until_ms = %s WHERE resolution_s = 60", (10**15,)
        )
        for number in (1, 2):
            await add_points(connection, START_MS + number * 10**8, [late])
    assert rows(
        run.database_url, "SELECT ack_latencies FROM vela_stats_point_10s WHERE at_ms = %s", 10**15
    ) == [([2, 4],)]


async def test_a_redelivery_counts_and_a_reader_s_messages_count_only_for_the_topic(
    run: BrokerRun, clock: ManualClock
) -> None:
    consumer = await run.consumer(permits=10)
    reader = await run.consumer(subscription="reader", permits=10, durable=False)
    producer = await run.producer()
    await run.broker.reporter._report()
    await producer.publish(2)
    await consumer.has(2)
    await reader.has(2)
    assert consumer.consumer is not None
    consumer.consumer.redeliver(consumer.positions[:1])
    await consumer.has(3)
    await bucket(run, clock)
    assert rows(run.database_url, OF_TOPIC, START_MS) == [(0, 2, 5, 0, 1, 0, 2)]
    assert [row[:4] for row in rows(run.database_url, OF_SUBSCRIPTIONS, START_MS)] == [(0, "s", None, 3)]


async def test_a_publish_writes_the_backlog_of_every_subscription_and_idle_topics_write_nothing(
    run: BrokerRun, clock: ManualClock
) -> None:
    for name in ("a", "b"):
        await run.consumer(subscription=name)
    await (await run.producer("other")).publish(1)
    await bucket(run, clock)
    await (await run.producer()).publish(3)
    for _ in range(3):
        await bucket(run, clock)
    assert rows(run.database_url, OF_SUBSCRIPTIONS, START_MS) == [
        (1, "a", None, 0, 0, 0, 3),
        (1, "b", None, 0, 0, 0, 3),
    ]
    assert [row[:2] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [(0, 1), (1, 3)]


async def test_a_topic_that_is_unloaded_and_loaded_in_one_bucket_is_counted_once(
    run: BrokerRun, clock: ManualClock
) -> None:
    consumer = await run.consumer(permits=10, acks=True)
    await (await run.producer()).publish(3)
    await consumer.has(3)
    await run.broker.reporter._report()
    await run.broker.endings.unload([T])
    again = await run.consumer(permits=10)
    await (await run.producer()).publish(2)
    await again.has(2)
    await bucket(run, clock)
    assert rows(run.database_url, OF_TOPIC, START_MS) == [(0, 5, 5, 3, 0, 0, 2)]
    assert rows(run.database_url, OF_SUBSCRIPTIONS, START_MS) == [(0, "s", None, 5, 3, 0, 2)]


@pytest.mark.parametrize(
    ("statement", "moment"),
    [("INSERT INTO vela_stats_point_10s", Moment.LOSE_REQUEST), ("COMMIT", Moment.LOSE_ANSWER)],
)
async def test_a_bucket_whose_answer_is_lost_is_stored_once(
    run: BrokerRun, clock: ManualClock, statement: str, moment: Moment
) -> None:
    producer = await run.producer()
    await producer.publish(3)
    trap = run.proxy.trap(statement, moment, connection="reporter")
    with pytest.raises(psycopg.OperationalError):
        await bucket(run, clock)
    assert trap.caught.is_set()
    await producer.publish(4)
    await bucket(run, clock)
    await bucket(run, clock)
    assert [row[:2] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [(0, 3), (1, 4)]


async def test_a_stop_writes_the_open_bucket_and_the_next_broker_begins_after_it(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    first = await new_run(broker_url, clock=clock)
    await first.start()
    await (await first.producer()).publish(3)
    clock.advance(4_000)
    await first.stop()
    async with running(broker_url, clock=clock) as second:
        await (await second.producer()).publish(4)
        clock.advance(-4_000)
        await bucket(second, clock)
        assert [row[:2] for row in rows(broker_url, OF_TOPIC, START_MS)] == [(0, 3)]
        await bucket(second, clock)
        assert [row[:2] for row in rows(broker_url, OF_TOPIC, START_MS)] == [(0, 3), (1, 4)]


async def test_nothing_is_written_twice_while_the_clock_is_set_back(
    run: BrokerRun, clock: ManualClock
) -> None:
    producer = await run.producer()
    await producer.publish(1)
    await bucket(run, clock)
    clock.advance(-60_000)
    await producer.publish(2)
    await bucket(run, clock)
    assert [row[:2] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [(0, 1)]
    clock.advance(50_000)
    await bucket(run, clock)
    assert [row[:2] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [(0, 1), (1, 2)]


async def test_a_clock_that_is_set_back_far_does_not_pile_up_changes(
    run: BrokerRun, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await run.producer()
    await producer.publish(1)
    await bucket(run, clock)
    clock.advance(-3_600_000)
    for _ in range(2):
        await producer.publish(2)
        await bucket(run, clock)
    assert not run.broker.reporter.history._buckets._noted
    assert caplog.text.count("behind the last points") == 1
    clock.advance(3_600_000)
    await producer.publish(3)
    await bucket(run, clock)
    assert [row[1] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [1, 7]


async def test_a_bucket_that_comes_after_its_minute_was_rolled_up_counts_in_the_next_one(
    run: BrokerRun, clock: ManualClock
) -> None:
    producer = await run.producer()
    await producer.publish(3)
    rolled_ms = START_MS - START_MS % 60_000 + 60_000
    rows(run.database_url, "UPDATE vela_stats_progress SET until_ms = %s WHERE resolution_s = 60", rolled_ms)
    await bucket(run, clock)
    assert rows(run.database_url, "SELECT at_ms, messages_in FROM vela_stats_point_10s") == [(rolled_ms, 3)]


async def test_a_bucket_that_meets_a_roll_up_is_stored_after_it(run: BrokerRun, clock: ManualClock) -> None:
    producer = await run.producer()
    await producer.publish(3)
    rolled_ms = START_MS - START_MS % 60_000 + 60_000
    with psycopg.connect(run.database_url) as roll_up:
        roll_up.execute("SELECT FROM vela_stats_progress WHERE resolution_s = 60 FOR UPDATE")
        await bucket(run, clock)
        await producer.publish(4)
        await bucket(run, clock)
        roll_up.execute("UPDATE vela_stats_progress SET until_ms = %s WHERE resolution_s = 60", (rolled_ms,))
    await run.broker.reporter.history.write()
    assert rows(run.database_url, "SELECT at_ms, sum(messages_in) FROM vela_stats_point_10s GROUP BY 1") == [
        (rolled_ms, 7)
    ]


async def test_a_bucket_that_the_server_refuses_is_left_out_and_later_ones_are_written(
    run: BrokerRun, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await run.producer()
    rows(
        run.database_url,
        "ALTER TABLE vela_stats_point_10s ADD CONSTRAINT test_few CHECK (messages_in < 3)",
    )
    await producer.publish(3)
    await bucket(run, clock)
    await producer.publish(2)
    await bucket(run, clock)
    assert [row[:2] for row in rows(run.database_url, OF_TOPIC, START_MS)] == [(1, 2)]
    assert [each.getMessage() for each in caplog.records if "refused 1 points" in each.getMessage()]


async def test_the_reporter_writes_buckets_at_its_own_intervals(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 0.01)
    async with running(broker_url, clock=clock) as run:
        await (await run.producer()).publish(3)
        await eventually(
            lambda: rows(broker_url, "SELECT 1 FROM vela_topic_summary WHERE messages_in = 3"), "a report"
        )
        clock.advance(BUCKET_MS)
        await eventually(lambda: rows(broker_url, OF_TOPIC, START_MS), "a point")
    assert [row[:2] for row in rows(broker_url, OF_TOPIC, START_MS)] == [(0, 3)]
