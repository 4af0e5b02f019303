"""Receipts: durable, in send order, one for each send, whatever happens to the connection."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.broker_harness import BrokerRun, eventually, one_row, payload_of, rows
from tests.support.postgres_proxy import Moment

APPEND = 'INSERT INTO "vela_entry_1"'
COPY = 'COPY "vela_entry_1"'
LARGE = bytes(300_000)  # stored with COPY


async def test_receipts_come_in_send_order_with_gapless_positions(run: BrokerRun) -> None:
    producer = await run.producer()
    positions = await producer.publish(2500)
    assert [each.sequence_id for each in producer.receipts] == list(range(2500))
    assert [position.entry_id for position in positions] == list(range(2500))
    assert one_row(run.database_url, "SELECT count(*), max(entry_id) FROM vela_entry") == (2500, 2499)


async def test_two_lanes_never_overtake_within_a_topic(run: BrokerRun) -> None:
    producers = [await run.producer(f"t{number}") for number in range(6)]
    for _ in range(300):
        for producer in producers:
            producer.send()
    for producer in producers:
        await producer.has_receipts(300)
        assert [each.sequence_id for each in producer.receipts] == list(range(300))
        assert [each.entry_id for each in producer.receipts] == list(range(300))


@pytest.mark.parametrize(
    ("sql", "doubtful", "moment"),
    [
        pytest.param(APPEND, b"in doubt", Moment.LOSE_REQUEST, id="statement, not sent"),
        pytest.param(APPEND, b"in doubt", Moment.LOSE_ANSWER, id="statement, committed"),
        pytest.param(COPY, LARGE, Moment.LOSE_REQUEST, id="copy, not sent"),
        pytest.param(COPY, LARGE, Moment.LOSE_ROWS, id="copy, half sent"),
        pytest.param(COPY, LARGE, Moment.LOSE_ANSWER, id="copy, committed"),
    ],
)
async def test_an_unknown_outcome_is_found_out_and_never_doubled(
    run: BrokerRun, sql: str, doubtful: bytes, moment: Moment
) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=100)
    await producer.publish(3)
    trap = run.proxy.trap(sql, moment)
    producer.send(doubtful)
    await trap.caught.wait()
    for _ in range(5):
        producer.send()
    await producer.has_receipts(9)
    assert [each.sequence_id for each in producer.receipts] == list(range(9))
    stored = rows(run.database_url, "SELECT data FROM vela_entry ORDER BY ledger_id, entry_id")
    payloads = [payload_of(row[0]) for row in stored]
    assert payloads == [
        b"0",
        b"1",
        b"2",
        doubtful,
        *(b"%d" % n for n in range(4, 9)),
    ]
    await consumer.has(9)
    assert consumer.payloads == payloads
    assert not producer.failed
    assert not producer.closed
    assert run.broker.writer.unknown_outcomes == 1


async def test_a_stale_owner_stores_nothing_and_closes_its_clients(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    await producer.publish(1)
    rows(run.database_url, "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1, owner_token = 0")
    producer.send(b"too late")
    await eventually(lambda: producer.closed, "the producer to be closed")
    assert len(producer.receipts) == 1
    assert consumer.closed
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (1,)
    assert await consumer.ack_durably(consumer.positions[0]) is not None


async def test_losing_every_connection_at_once_loses_no_message(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=1000, acks=True)
    for _ in range(10):
        for _ in range(20):
            producer.send()
        run.proxy.cut()
    await producer.has_receipts(200)
    assert [each.sequence_id for each in producer.receipts] == list(range(200))
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (200,)
    await eventually(lambda: len(set(consumer.positions)) == 200, "all 200 messages")


async def test_a_copy_stores_the_rows_of_every_topic_except_the_fenced_one(run: BrokerRun) -> None:
    good, stale = await run.producer("good"), await run.producer("stale")
    await good.publish(1)
    await stale.publish(1)
    first = run.proxy.trap(COPY, Moment.HOLD_REQUEST)
    good.send(LARGE)  # held, so that both topics' next sends share one commit
    await first.caught.wait()
    second = run.proxy.trap(COPY, Moment.HOLD_REQUEST)
    stale.send(LARGE)
    await second.caught.wait()
    rows(
        run.database_url,
        "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1, owner_token = 0 WHERE topic_id = %s",
        run.topic("stale").log.topic_id,
    )
    for _ in range(3):
        good.send(LARGE)
        stale.send(LARGE)
    first.release()
    second.release()
    await good.has_receipts(5)
    await eventually(lambda: stale.closed, "the stale topic's producer to be closed")
    assert len(stale.receipts) == 1
    assert not good.closed
    assert one_row(run.database_url, "SELECT count(*), sum(length(data)) > 1200000 FROM vela_entry") == (
        6,
        True,
    )


async def test_an_advance_of_the_epoch_waits_for_the_rows_of_a_copy(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    topic = run.topic()
    trap = run.proxy.trap(COPY, Moment.HOLD_ROWS)
    producer.send(LARGE)
    await trap.caught.wait()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        rows(run.database_url, "SELECT FROM vela_topic_owner FOR UPDATE NOWAIT")
    trap.release()
    await producer.has_receipts(2)
    assert rows(run.database_url, "SELECT topic_id FROM vela_topic_owner FOR UPDATE NOWAIT") == [
        (topic.log.topic_id,)
    ]
