"""Statements that PostgreSQL receives or finishes only after their connection died.

broker/storage/sql/README.md has a table of these races.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from broker.core.position import LATEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.log.topic_log import TopicLog
from broker.topics.topic import Topic
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment

MARK_DELETE = "SELECT mark_delete_ledger, mark_delete_entry, acked_messages FROM vela_cursor"
FLUSH = "UPDATE vela_cursor c SET mark_delete_ledger = u."
ADVANCE = "UPDATE vela_topic_owner o SET owner_epoch"
STORED_TYPE = "SELECT type FROM vela_subscription"


async def test_a_late_flush_does_not_undo_later_acks(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(6)
    await consumer.has(6)
    trap = run.proxy.trap(FLUSH, Moment.LATE_REQUEST)
    first = asyncio.ensure_future(consumer.ack_durably(positions[0]))
    await trap.caught.wait()
    assert await first is None
    assert await consumer.ack_durably(*positions[1:]) is None
    trap.release()
    await trap.passed.wait()
    assert one_row(run.database_url, MARK_DELETE) == (*positions[5], 6)


async def test_a_late_flush_does_not_undo_a_move(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(6)
    await consumer.has(6)
    late = run.proxy.trap(FLUSH, Moment.LATE_REQUEST)
    acking = asyncio.ensure_future(consumer.ack_durably(positions[0]))
    await late.caught.wait()
    advance = run.proxy.trap(ADVANCE, Moment.HOLD_REQUEST)
    assert consumer.consumer is not None
    seeking = asyncio.ensure_future(consumer.consumer.seek_position(LATEST, None))
    await advance.caught.wait()
    late.release()
    await late.passed.wait()
    if not seeking.done():  # it waits until no earlier statement can change the cursor any more
        advance.release()
        await seeking
    assert one_row(run.database_url, MARK_DELETE) == (*positions[5], 6)
    advance.release()
    assert await acking is None


async def test_a_late_roll_leaves_no_ledger_behind_the_one_in_use(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=5) as run:
        producer = await run.producer()
        await producer.publish(5)
        trap = run.proxy.trap("SET state = 'sealed'", Moment.LATE_REQUEST)
        producer.send()
        await trap.caught.wait()
        await producer.has_receipts(6)
        trap.release()
        await trap.passed.wait()
        in_use = producer.receipts[-1].ledger_id
        assert one_row(broker_url, "SELECT max(id) FROM vela_ledger WHERE state = 'open'") == (in_use,)
    async with running(broker_url, ledger_max_entries=5) as again:
        producer = await again.producer()
        await producer.publish(1)
        assert again.topic().log.ledgers.total_messages == 7
        stored = rows(broker_url, "SELECT cumulative_messages FROM vela_entry ORDER BY ledger_id, entry_id")
        assert [row[0] for row in stored] == [1, 2, 3, 4, 5, 6, 7]


async def test_a_roll_whose_answer_is_lost_is_repeated_and_counts_stay_exact(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=5) as run:
        producer = await run.producer()
        await run.consumer()
        await producer.publish(5)
        trap = run.proxy.trap("SET state = 'sealed'", Moment.LOSE_ANSWER)
        producer.send()
        await trap.caught.wait()
        await producer.has_receipts(6)
        await producer.publish(3)
    async with running(broker_url) as again:
        consumer = await again.consumer(permits=100)
        await consumer.has(9)
        assert consumer.payloads == [b"%d" % number for number in range(9)]
        assert again.subscription().cursor.backlog_messages == 9


async def test_a_late_advance_of_the_epoch_changes_nothing(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    topic = run.topic()
    trap = run.proxy.trap(ADVANCE, Moment.LATE_REQUEST)
    advancing = asyncio.ensure_future(run.broker.epochs.advance({topic.log: topic.owner_epoch}))
    await trap.caught.wait()
    assert await advancing == {topic.log}
    trap.release()
    await trap.passed.wait()
    await producer.publish(3)
    assert not producer.closed


async def test_an_advance_whose_answer_is_lost_is_not_taken_for_another_broker(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    topic = run.topic()
    trap = run.proxy.trap(ADVANCE, Moment.LOSE_ANSWER)
    assert await run.broker.epochs.advance({topic.log: topic.owner_epoch}) == {topic.log}
    assert trap.caught.is_set()
    await producer.publish(3)
    assert not producer.closed


async def advanced_but_not_told(run: BrokerRun, topic: Topic) -> tuple[asyncio.Task[set[TopicLog]], object]:
    """Advance the epoch in PostgreSQL, and hold the answer for 0.1 s, so that this process does not know of it yet."""
    trap = run.proxy.trap(ADVANCE, Moment.HOLD_ANSWER)
    task = asyncio.create_task(run.broker.epochs.advance({topic.log: topic.owner_epoch}))
    await trap.caught.wait()
    asyncio.get_running_loop().call_later(0.1, trap.release)
    return task, trap


async def test_an_append_fenced_by_this_process_itself_is_stored_under_the_new_epoch(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    advancing, _ = await advanced_but_not_told(run, run.topic())
    await producer.publish(3)
    await advancing
    assert not producer.closed
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (4,)


async def test_a_flush_fenced_by_this_process_itself_is_repeated(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(3)
    await consumer.has(3)
    advancing, _ = await advanced_but_not_told(run, run.topic())
    assert await consumer.ack_durably(*positions) is None
    await advancing
    assert not consumer.closed
    assert one_row(run.database_url, MARK_DELETE) == (*positions[2], 3)


async def test_a_roll_a_subscribe_a_seek_and_an_unsubscribe_survive_this_process_own_advance(
    broker_url: str,
) -> None:
    async with running(broker_url, ledger_max_entries=2) as run:
        producer = await run.producer()
        positions = await producer.publish(2)
        await advanced_but_not_told(run, run.topic())
        await producer.publish(1)  # needs a new ledger
        await advanced_but_not_told(run, run.topic())
        consumer = await run.consumer(permits=10)
        await consumer.has(3)
        assert consumer.consumer is not None
        await advanced_but_not_told(run, run.topic())
        await consumer.consumer.seek_position(positions[1], None)
        consumer = await run.consumer(permits=10)
        await consumer.has(2)
        assert consumer.consumer is not None
        await advanced_but_not_told(run, run.topic())
        await consumer.consumer.unsubscribe(force=False)
        assert rows(broker_url, "SELECT name FROM vela_subscription") == []
        assert not producer.closed
        states = rows(broker_url, "SELECT kind, state FROM vela_act ORDER BY id")
        assert states == [("seek", "applied"), ("unsubscribe", "applied")]


async def test_a_late_subscribe_does_not_bring_back_a_deleted_subscription(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    trap = run.proxy.trap("INSERT INTO vela_subscription", Moment.LATE_REQUEST)
    subscribing = asyncio.ensure_future(run.consumer())
    await trap.caught.wait()
    consumer = (await subscribing).consumer
    assert consumer is not None
    await consumer.unsubscribe(force=False)
    trap.release()
    await trap.passed.wait()
    assert rows(run.database_url, "SELECT name FROM vela_subscription") == []


async def test_a_subscribe_whose_answer_is_lost_makes_one_subscription(run: BrokerRun) -> None:
    producer = await run.producer()
    positions = await producer.publish(2)
    trap = run.proxy.trap("INSERT INTO vela_subscription", Moment.LOSE_ANSWER)
    consumer = await run.consumer(permits=10)
    assert trap.caught.is_set()
    await consumer.has(2)
    assert consumer.positions == positions
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (1,)
    assert await consumer.ack_durably(*positions) is None
    assert one_row(run.database_url, MARK_DELETE)[:2] == positions[1]


@asynccontextmanager
async def type_being_stored(run: BrokerRun) -> AsyncIterator[asyncio.Future[ConsumerProbe]]:
    """Yield an attach whose new type waits for a lock on the subscription, until the block ends."""
    probe = await run.consumer()
    assert probe.consumer is not None
    probe.consumer.detach()
    with psycopg.connect(run.database_url) as page:
        page.execute("SELECT FROM vela_subscription FOR UPDATE")
        subscribing = asyncio.ensure_future(run.consumer(type_=SubscriptionType.FAILOVER))
        await eventually(
            lambda: rows(run.database_url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
            "the type waits for the page's transaction",
        )
        yield subscribing


async def test_an_advance_waits_for_the_type_of_a_subscription(run: BrokerRun) -> None:
    async with type_being_stored(run) as subscribing:
        with pytest.raises(psycopg.errors.LockNotAvailable):
            rows(run.database_url, "SELECT FROM vela_topic_owner FOR UPDATE NOWAIT")
    await subscribing
    assert one_row(run.database_url, STORED_TYPE) == ("Failover",)


async def test_a_type_that_this_process_own_advance_fenced_is_stored(run: BrokerRun) -> None:
    probe = await run.consumer()
    assert probe.consumer is not None
    probe.consumer.detach()
    await advanced_but_not_told(run, run.topic())
    await run.consumer(type_=SubscriptionType.FAILOVER)
    assert one_row(run.database_url, STORED_TYPE) == ("Failover",)


async def test_the_type_of_a_client_that_gave_up_is_stored_for_the_next_client(run: BrokerRun) -> None:
    async with type_being_stored(run) as subscribing:
        subscribing.cancel()
        await asyncio.gather(subscribing, return_exceptions=True)
    await run.consumer(type_=SubscriptionType.FAILOVER)
    assert one_row(run.database_url, STORED_TYPE) == ("Failover",)


@pytest.mark.parametrize(
    ("sql", "payload"),
    [('INSERT INTO "vela_entry_1"', b""), ('COPY "vela_entry_1"', bytes(300_000))],
    ids=["by statement", "by COPY"],
)
async def test_an_append_in_flight_while_the_epoch_advances_is_stored_once(
    run: BrokerRun, sql: str, payload: bytes
) -> None:
    producer = await run.producer()
    await producer.publish(1)
    topic = run.topic()
    trap = run.proxy.trap(sql, Moment.HOLD_REQUEST)
    producer.send(payload)
    await trap.caught.wait()
    assert await run.broker.epochs.advance({topic.log: topic.owner_epoch}) == {topic.log}
    trap.release()  # the statement arrives under the old epoch
    await producer.has_receipts(2)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (2,)
    await eventually(lambda: topic.log.in_flight is None, "the batch to be settled")
    assert producer.receipts[-1].entry_id == Position(0, 1).entry_id
