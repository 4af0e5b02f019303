"""Reads and dispatch: all entries reach all subscriptions, gaps stop delivery, and no consumer delays another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from broker.core.entry import StoredEntry
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.log.reader import READ_BYTES, TopicReader
from broker.subscription.requests import Delivery
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, rows, running
from tests.support.postgres_proxy import Moment

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


@pytest.mark.parametrize("cache_bytes", [0, 2000, 64 << 20])
@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_all_of_a_backlog_arrives_in_order_however_small_the_cache(
    broker_url: str, cache_bytes: int, type_: SubscriptionType
) -> None:
    async with running(broker_url, tail_cache_bytes=cache_bytes, ledger_max_entries=70) as run:
        producer = await run.producer()
        positions = await producer.publish(400)
        consumer = await run.consumer(type_=type_, permits=150)
        await consumer.has(150)
        assert len(consumer.deliveries) == 150
        consumer.flow(1000)
        await consumer.has(400)
        assert consumer.positions == positions
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        await consumer.has(800)
        assert sorted(consumer.positions[400:]) == positions
        last = await consumer.consumer.last_message()
        assert last.position == positions[-1]
        assert last.number_in_batch == 0
        assert run.broker.cache.size_bytes <= max(cache_bytes, 0)


async def test_the_last_message_is_looked_for_again_if_it_is_trimmed_meanwhile(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker_url, tail_cache_bytes=0) as run:
        (position,) = await (await run.producer()).publish(1)
        consumer = await run.consumer()
        reader = type(run.topic().reader)
        really_read, reads = reader.read_chosen, []

        async def read_chosen(self: TopicReader, positions: Sequence[Position]) -> list[StoredEntry]:
            reads.append(positions)
            return [] if len(reads) == 1 else await really_read(self, positions)

        monkeypatch.setattr(reader, "read_chosen", read_chosen)
        assert consumer.consumer is not None
        assert (await consumer.consumer.last_message()).position == position
        assert len(reads) == 2


async def test_one_read_takes_a_bounded_number_of_bytes(broker_url: str) -> None:
    async with running(broker_url, tail_cache_bytes=0) as run:
        producer = await run.producer()
        await producer.publish(200)  # small entries, which lower the average size
        for _ in range(12):
            producer.send(bytes(1 << 20))
        await producer.has_receipts(212)
        reader = run.topic().reader
        ledger_id = producer.receipts[-1].ledger_id
        found = await reader.read_ahead(Position(ledger_id, 195))
        assert 5 < len(found) <= 5 + READ_BYTES // (1 << 20)
        assert len(await reader.read_ahead(Position(ledger_id, 0))) < 205


async def test_one_read_of_chosen_entries_is_bounded_over_all_ledgers(broker_url: str) -> None:
    async with running(broker_url, tail_cache_bytes=0, ledger_max_entries=2) as run:
        producer = await run.producer()
        for sent in range(12):
            producer.send(bytes(1 << 20))
            await producer.has_receipts(sent + 1)
        positions = [Position(each.ledger_id, each.entry_id) for each in producer.receipts]
        assert len({each.ledger_id for each in positions}) == 6
        reader, most = run.topic().reader, READ_BYTES >> 20
        # The reader takes the wanted positions in the given order; otherwise a replay would not continue.
        for wanted in (
            positions,
            positions[::-1],
        ):
            found = await reader.read_chosen(wanted)
            assert [Position(each.ledger_id, each.entry_id) for each in found] == sorted(wanted[:most])


@pytest.mark.parametrize("lost", [0, 7, 29])
async def test_a_missing_entry_stops_delivery_with_an_alarm_and_is_never_passed(
    broker_url: str, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(broker_url, tail_cache_bytes=0) as run:
        producer = await run.producer()
        positions = await producer.publish(30)
        rows(broker_url, "DELETE FROM vela_entry_1 WHERE entry_id = %s", lost)
        consumer = await run.consumer(permits=100)
        await eventually(lambda: run.subscription().gap, "the alarm")
        assert consumer.positions == positions[:lost]
        await producer.publish(3)
        consumer.flow(10)
        assert consumer.positions == positions[:lost]
        assert any(
            record.levelname == "CRITICAL" and str(positions[lost]) in record.message
            for record in caplog.records
        )


async def test_an_entry_that_vanished_after_its_delivery_stops_redelivery_with_an_alarm(
    broker_url: str,
) -> None:
    async with running(broker_url, tail_cache_bytes=0) as run:
        producer = await run.producer()
        positions = await producer.publish(3)
        consumer = await run.consumer(permits=3)
        await consumer.has(3)
        rows(broker_url, "DELETE FROM vela_entry_1 WHERE entry_id = 1")
        consumer.flow(10)
        assert consumer.consumer is not None
        consumer.consumer.redeliver([positions[1]])
        await eventually(lambda: run.subscription().gap, "the alarm")
        assert len(consumer.deliveries) == 3


async def test_a_slow_consumer_gets_nothing_and_the_others_go_on(run: BrokerRun) -> None:
    producer = await run.producer()
    slow, quick = await run.consumer(name="slow"), await run.consumer(name="quick")
    slow.writable = False
    slow.flow(1000)
    quick.flow(1000)
    await producer.publish(200)
    await eventually(
        lambda: len(slow.deliveries) + len(quick.deliveries) == 200, "everything to be delivered"
    )
    before = len(slow.deliveries)
    assert before <= 100  # at most one write; after it, the broker knows that the transport is full
    await producer.publish(200)
    await quick.has(400 - before)
    assert len(slow.deliveries) == before
    slow.writable = True
    assert slow.consumer is not None
    slow.consumer.writable_again()
    await producer.publish(200)
    assert len(slow.deliveries) > before


async def test_a_connection_that_is_full_when_it_subscribes_gets_nothing(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(5)
    probe = ConsumerProbe()
    probe.writable = False
    consumer = await run.attach(probe)
    probe.flow(10)
    assert probe.deliveries == []
    probe.writable = True
    consumer.writable_again()
    await probe.has(5)


class Faulty(ConsumerProbe):
    """A consumer whose transport breaks in a write. The break also ends another consumer of its connection."""

    def __init__(self, neighbour: ConsumerProbe) -> None:
        super().__init__()
        self.neighbour = neighbour

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Detach the other consumer, and raise an error."""
        if self.neighbour.consumer is not None:
            self.neighbour.consumer.detach()
        raise RuntimeError("the transport broke")


async def test_a_transport_that_breaks_in_a_write_affects_no_other_consumer(run: BrokerRun) -> None:
    producer = await run.producer()
    neighbour, bystander = await run.consumer(name="neighbour"), await run.consumer(name="bystander")
    faulty = Faulty(neighbour)
    await run.attach(faulty)
    for each in (faulty, neighbour, bystander):
        each.flow(1000)
    await producer.publish(100)
    await eventually(
        lambda: len(set(bystander.positions) | set(neighbour.positions)) == 100,
        "all entries to reach another consumer",
    )
    await producer.publish(10)
    assert faulty.closed


async def test_permits_are_spent_once_and_never_exceeded(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    await producer.publish(30)
    await consumer.has(10)
    assert len(consumer.deliveries) == 10
    assert consumer.consumer is not None
    permits = consumer.consumer.dispatch.permits
    assert (permits.granted, permits.spent, permits.balance) == (10, 10, 0)
    consumer.flow(5)
    await consumer.has(15)
    assert len(consumer.deliveries) == 15


async def test_a_read_that_loses_its_connection_is_repeated(broker_url: str) -> None:
    async with running(broker_url, tail_cache_bytes=0) as run:
        producer = await run.producer()
        positions = await producer.publish(20)
        trap = run.proxy.trap("SELECT entry_id, messages, flags", Moment.LOSE_ANSWER)
        consumer = await run.consumer(permits=100)
        await trap.caught.wait()
        await consumer.has(20)
        assert consumer.positions == positions


async def test_on_shared_an_entry_is_pending_at_one_consumer_at_most(run: BrokerRun) -> None:
    producer = await run.producer()
    consumers = [await run.consumer(name=f"c{number}", permits=40) for number in range(4)]
    positions = await producer.publish(100)
    await eventually(lambda: sum(len(each.deliveries) for each in consumers) == 100, "100 deliveries")
    assert sorted(position for each in consumers for position in each.positions) == positions
    leaver = consumers[0]
    assert leaver.consumer is not None
    leaver.consumer.detach()
    consumers[1].flow(100)
    await eventually(
        lambda: (
            set(leaver.positions)
            <= set(consumers[1].positions) | set(consumers[2].positions) | set(consumers[3].positions)
        ),
        "the leaver's entries to reach other consumers",
    )
    await asyncio.wait_for(run.flushed(), 5)
