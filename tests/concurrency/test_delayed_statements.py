"""Lost, late or fenced statements that append delayed messages, append from the outbox, or delete due times.

broker/storage/sql/README.md has a table of these races.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from broker.core.position import Position
from broker.storage.queries import query
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    ProducerProbe,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment
from vela.wire.entry import encode_single

MORE = "INSERT INTO vela_delayed_entry"
PRUNE = "DELETE FROM vela_delayed_entry d USING o WHERE d.topic_id = o.topic_id AND d.deliver_at_ms"
DUE_TIMES = "SELECT deliver_at_ms, ledger_id, entry_id FROM vela_delayed_entry ORDER BY 1, 2, 3"
ENTRIES = "SELECT count(*) FROM vela_entry"
HOUR_MS = 3_600_000
LOSSES = [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER, Moment.LATE_REQUEST]


@pytest.fixture
async def still(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A broker for which time passes only when the test says so."""
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as run:
        yield run


def clock_of(run: BrokerRun) -> ManualClock:
    assert isinstance(run.clock, ManualClock)
    return run.clock


async def delayed(producer: ProducerProbe, due_ms: int) -> tuple[int, int, int]:
    """Send one delayed message, and return its row."""
    producer.send(deliver_at_ms=due_ms)
    await producer.has_receipts(len(producer.receipts) + 1)
    receipt = producer.receipts[-1]
    return due_ms, receipt.ledger_id, receipt.entry_id


async def fall_due(run: BrokerRun, at_ms: int) -> None:
    """Set the time to `at_ms`, and deliver what is due by then."""
    clock_of(run).advance(at_ms - run.clock.now_ms())
    run.topic().delayed.run_due(at_ms)


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_delayed_message_whose_append_is_lost_or_late_has_one_entry_and_one_due_time(
    still: BrokerRun, loss: Moment
) -> None:
    producer = await still.producer()
    await producer.publish(1)
    trap = still.proxy.trap(MORE, loss)
    due_ms = still.clock.now_ms() + HOUR_MS
    producer.send(deliver_at_ms=due_ms)
    await trap.caught.wait()
    await producer.has_receipts(2)
    if loss is Moment.LATE_REQUEST:
        trap.release()
        await trap.passed.wait()
    assert one_row(still.database_url, ENTRIES) == (2,)
    receipt = producer.receipts[-1]
    assert rows(still.database_url, DUE_TIMES) == [(due_ms, receipt.ledger_id, receipt.entry_id)]
    consumer = await still.consumer(permits=10)
    await consumer.has(1)
    assert len(consumer.deliveries) == 1
    await fall_due(still, due_ms)
    await consumer.has(2)


async def test_a_delayed_append_in_flight_while_the_epoch_advances_stores_all_or_nothing(
    still: BrokerRun,
) -> None:
    producer = await still.producer()
    await producer.publish(1)
    topic = still.topic()
    trap = still.proxy.trap(MORE, Moment.HOLD_REQUEST)
    due_ms = still.clock.now_ms() + HOUR_MS
    producer.send(deliver_at_ms=due_ms)
    await trap.caught.wait()
    assert await still.broker.epochs.advance({topic.log: topic.owner_epoch}) == {topic.log}
    trap.release()
    await producer.has_receipts(2)
    assert one_row(still.database_url, ENTRIES) == (2,)
    assert [row[0] for row in rows(still.database_url, DUE_TIMES)] == [due_ms]


@pytest.mark.parametrize("loss", LOSSES)
async def test_an_outbox_message_is_moved_once_and_its_row_is_deleted_with_it(
    still: BrokerRun, loss: Moment
) -> None:
    due_ms = still.clock.now_ms() + HOUR_MS
    await still.consumer()
    trap = still.proxy.trap(MORE, loss)
    with psycopg.connect(still.database_url, autocommit=True) as connection:
        for number, deliver_at_ms in enumerate((0, due_ms)):
            data = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"%d" % number)
            connection.execute(
                query("outbox", "add"),
                {
                    "topic": still.topic().name.full,
                    "key_hash": None,
                    "deliver_at_ms": deliver_at_ms,
                    "data": data,
                },
            )
        connection.execute(query("outbox", "wake"))
    await trap.caught.wait()
    await eventually(
        lambda: one_row(still.database_url, "SELECT count(*) FROM vela_outbox") == (0,), "an empty outbox"
    )
    if loss is Moment.LATE_REQUEST:
        trap.release()
        await trap.passed.wait()
    await eventually(lambda: still.topic().log.in_flight is None, "the append under way to be settled")
    assert one_row(still.database_url, ENTRIES) == (2,)
    assert [row[0] for row in rows(still.database_url, DUE_TIMES)] == [due_ms]


async def test_a_late_deletion_of_due_times_takes_none_that_came_since(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer, began_ms = await run.producer(), clock.now_ms()
        await delayed(producer, began_ms + 1000)
        await fall_due(run, began_ms + 1000)
        trap = run.proxy.trap(PRUNE, Moment.LATE_REQUEST)
        await run.topic().delayed.prune()
        assert trap.caught.is_set()
        assert rows(broker_url, DUE_TIMES) == []
        clock.advance(-1000)  # the machine's clock is set back, so messages that were due are delayed again
        row = await delayed(producer, began_ms + 500)
        trap.release()
        await trap.passed.wait()
        assert rows(broker_url, DUE_TIMES) == [row]
    async with running(broker_url, clock=clock, wheel_enabled=False) as again:
        consumer = await again.consumer(permits=10)
        await fall_due(again, began_ms + 500)
        await consumer.has(1)
        assert consumer.positions == [Position(*row[1:])]
        await fall_due(again, began_ms + 1000)
        await consumer.has(2)


async def test_a_deletion_of_due_times_whose_answer_is_lost_is_repeated(still: BrokerRun) -> None:
    producer, began_ms = await still.producer(), still.clock.now_ms()
    await delayed(producer, began_ms + 1000)
    row = await delayed(producer, began_ms + 5000)
    await fall_due(still, began_ms + 1000)
    trap = still.proxy.trap(PRUNE, Moment.LOSE_ANSWER)
    await still.topic().delayed.prune()
    assert trap.caught.is_set()
    assert rows(still.database_url, DUE_TIMES) == [row]


async def test_a_broker_that_lost_its_topic_deletes_no_due_times(still: BrokerRun) -> None:
    producer, began_ms = await still.producer(), still.clock.now_ms()
    row = await delayed(producer, began_ms + 1000)
    await fall_due(still, began_ms + 1000)
    rows(still.database_url, "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 10")
    await still.topic().delayed.prune()
    assert rows(still.database_url, DUE_TIMES) == [row]
    assert producer.closed
