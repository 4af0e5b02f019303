"""A fault inside the broker, at any call of its storage: no client hangs, no receipt is wrong, delivery continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from broker.core.position import LATEST, Position
from broker.core.subscription.types import SubscriptionType
from tests.integration.broker.test_outbox import put
from tests.integration.broker.test_outbox import session as transaction
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    empty,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.lasting_clients import LastingConsumer, LastingProducer
from tests.support.storage_faults import Fault, Moment, StorageFaults

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
OLD = [b"old %d" % number for number in range(12)]  # three full ledgers
NEW = [b"new %d" % number for number in range(10)]
# Every call of the storage that the traffic below causes.
CALLS = {
    "cursors.flush",
    "entries.append",
    "entries.read",
    "entries.read_counts",
    "entries.read_some",
    "pool.flusher",
    "pool.work",
    "topics.roll_ledgers",
}
# Calls that timers or attaching clients cause. Each may occur or not; the tests cover these calls too.
ALSO = {
    "acts.waiting",
    "pool.connect",
    "pool.heartbeat",
    "cursors.create_subscription",
    "cursors.forget_pending",
    "cursors.replace_pending",
    "cursors.set_type",
    "outbox.topics",
    "pool.reporter",
    "topics.segment_size_bytes",
    "prepared_connection.connect",
}


@dataclass
class Traffic:
    """A producer and three consumers: one reads, one gets redeliveries, and one acks what must be counted first."""

    run: BrokerRun
    faults: StorageFaults
    producer: LastingProducer
    reader: LastingConsumer
    again: LastingConsumer
    late: LastingConsumer
    old: list[Position]

    def flow(self) -> None:
        """Start the traffic. A test can make each of its calls fail."""
        for position in self.old:
            self.late.acknowledge(position)
        self.producer.publish_all(NEW)
        self.reader.flow(1000)
        self.again.flow(1000)

    async def settle(self) -> None:
        """Check what a client may rely on once the fault is over."""
        await eventually(lambda: self.producer.is_done, "every send to have its receipt")
        wanted = {*OLD, *NEW}
        for consumer in (self.reader, self.again):
            await eventually(lambda c=consumer: c.all_payloads >= wanted, "everything to be delivered")  # type: ignore[misc]
        clients = (self.reader, self.again, self.late)
        await eventually(lambda: all(each.has_all_answers for each in clients), "every ack to be answered")
        assert [each for client in (self.producer, *clients) for each in client.wrong] == []
        # `late` has now acked the messages that it got again because its acks were refused.
        self.late.flow(1000)
        await eventually(lambda: self.late.all_payloads >= set(NEW), "later messages to be delivered")
        await eventually(lambda: self.stored_backlogs() == [0, 0, 0], "every ack to be stored")

    def stored_backlogs(self) -> list[int]:
        """Return the backlog of each subscription in PostgreSQL: the messages that a crash now would redeliver."""
        query = "SELECT (SELECT sum(messages) FROM vela_entry)::bigint - c.acked_messages FROM vela_cursor c"
        return [row[0] for row in rows(self.run.database_url, query)]


@asynccontextmanager
async def traffic(url: str) -> AsyncIterator[Traffic]:
    """The traffic with its clients attached. Neither the entries nor the counts of older messages are in memory."""
    async with running(url, ledger_max_entries=4, tail_cache_bytes=0) as run:
        faults = StorageFaults()
        producer = LastingProducer(run)
        for payload in OLD:  # with an append for each message, so that they fill ledgers
            producer.publish_all([payload])
            await eventually(lambda: producer.is_done, "the first messages")
        old = [Position(each.ledger_id, each.entry_id) for each in producer.receipts]
        reader = LastingConsumer(run, "reader", permits=0)
        again = LastingConsumer(run, "again", permits=0)
        late = LastingConsumer(run, "late", SubscriptionType.EXCLUSIVE, permits=0)
        for each in (reader, again, late):
            each.attach()
            await each.attached()
        # This consumer leaves. Its entries reach the next one by a replay, which reads chosen entries and not a range.
        first = await run.consumer(subscription="again", permits=3, name="leaves")
        await first.has(3)
        assert first.consumer is not None
        first.consumer.detach()
        await run.flushed()
        run.topic().log.index.evict(LATEST, 0)
        with faults.installed():
            yield Traffic(run, faults, producer, reader, again, late, old)


async def test_the_list_of_calls_matches_the_traffic(broker_url: str) -> None:
    async with traffic(broker_url) as found:
        found.flow()
        await found.settle()
        made = {call for call, times in found.faults.calls.items() if times}
        assert made >= CALLS
        assert made <= CALLS | ALSO


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    ("call", "moment"),
    [
        pytest.param(call, moment, id=f"{moment.value} {call}")
        for call in sorted(CALLS)
        for moment in Moment
        if moment is BEFORE or not call.startswith("pool.")  # borrowing a connection fails only before
    ],
)
async def test_a_fault_in_a_call_still_answers_the_client(
    broker_url: str, call: str, moment: Moment, times: int
) -> None:
    async with traffic(broker_url) as found:
        found.faults.fail(call, moment, times=times)
        found.flow()
        await found.settle()
        assert found.faults.hits[call]
        stored = one_row(broker_url, "SELECT sum(messages)::bigint FROM vela_entry")
        assert stored == (len(OLD) + len(NEW),), "nothing is stored twice"


async def test_an_append_whose_outcome_cannot_be_found_out_fences_its_topic(broker_url: str) -> None:
    """The topic's producers reconnect and resend. As after a crash, a stored message may then be stored twice."""
    for unanswered in ("topics.advance_epochs", "entries.last_entry"):
        empty(broker_url)
        async with traffic(broker_url) as found:
            topic = found.run.topic()
            found.faults.fail("entries.append", AFTER)
            found.faults.fail(unanswered)
            found.flow()
            await found.settle()
            assert found.faults.hits[unanswered]
            assert topic.is_fenced
            assert found.run.topic() is not topic


async def test_a_lack_of_memory_is_a_fault_like_any_other(broker_url: str) -> None:
    async with traffic(broker_url) as found:
        for call in CALLS:
            found.faults.fail(call, times=2, error=MemoryError)
        found.flow()
        await found.settle()


async def test_a_background_task_that_fails_is_logged_as_an_error(
    run: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    async def die() -> None:
        raise Fault("gone")

    task = asyncio.create_task(die(), name="of nobody")
    run.broker.tasks.keep(task)
    await eventually(task.done, "the task to end")
    await eventually(lambda: [each for each in caplog.records if "of nobody" in each.getMessage()], "a line")
    (line,) = [each for each in caplog.records if "of nobody" in each.getMessage()]
    assert line.levelname == "ERROR"
    assert line.exc_info is not None


async def test_due_times_that_could_not_be_read_are_read_again(broker_url: str) -> None:
    clock, faults = ManualClock(), StorageFaults()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        producer.send(b"later", deliver_at_ms=clock.now_ms() + 60_000)
        await producer.has_receipts(1)
        await run.consumer()
    with faults.installed():
        faults.fail("delayed.due_after", times=2)
        async with running(broker_url, clock=clock) as run:
            consumer = await run.consumer(permits=10)
            while faults.hits["delayed.due_after"] < 2:
                await eventually(lambda: faults.hits["delayed.due_after"], "the fault")
                clock.advance(1_000)
                run.broker.deadlines.run_due()
                await asyncio.sleep(0)
            clock.advance(60_000)
            await eventually(
                lambda: run.broker.deadlines.run_due() or consumer.deliveries, "the delayed message"
            )
            await consumer.has(1)


async def test_state_of_deduplication_whose_flush_fails_is_stored_by_a_later_one(run: BrokerRun) -> None:
    faults = StorageFaults()
    topics = [await run.policies(f"t{number}", deduplication=True) for number in range(3)]
    with faults.installed():
        faults.fail("deduplication.flush", times=4)  # the flush of all three fails; then smaller ones
        for number in range(3):
            await (await run.producer(f"t{number}")).publish(1)
        query = "SELECT count(DISTINCT topic_id) FROM vela_deduplicated_producer"
        await eventually(lambda: one_row(run.database_url, query) == (len(topics),), "all of it to be stored")
        assert faults.hits["deduplication.flush"] == 4


async def test_a_topic_with_unreadable_outbox_rows_delays_no_other(run: BrokerRun) -> None:
    faults = StorageFaults()
    first, second = await run.consumer("a", permits=10), await run.consumer("b", permits=10)
    with faults.installed():
        faults.fail("outbox.waiting")
        with transaction(run.database_url) as connection:
            put(connection, b"one", topic="a")
            put(connection, b"two", topic="b")
        run.broker.outbox.wake()
        await first.has(1)
        await second.has(1)
        assert faults.hits["outbox.waiting"] == 1


async def test_acts_and_the_outbox_continue_after_a_fault(run: BrokerRun) -> None:
    faults = StorageFaults()
    with faults.installed():
        faults.fail("acts.waiting", times=2)
        faults.fail("outbox.topics", times=2)
        for wake in (run.broker.acts.wake, run.broker.outbox.wake):
            wake()
        await eventually(
            lambda: min(faults.calls["acts.waiting"], faults.calls["outbox.topics"]) > 2, "further turns"
        )


async def test_the_broker_lock_is_taken_again_after_a_fault_of_its_listener(run: BrokerRun) -> None:
    ownership = run.broker.ownership
    producer = await run.producer()
    await producer.publish(1)
    with patch.object(ownership, "_announce", side_effect=Fault("while the lock is taken again")) as failing:
        run.proxy.cut("lock")
        await eventually(lambda: failing.call_count >= 2, "two attempts")
    await eventually(lambda: ownership.is_held, "the lock to be held again")
    await producer.publish(1)
    assert not producer.closed
