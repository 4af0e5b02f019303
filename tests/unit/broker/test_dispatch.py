"""What the broker sends, when, and to which consumer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.log import entries as log_store
from broker.subscription.requests import Delivery
from tests.support.broker_harness import ConsumerProbe, ManualClock
from tests.support.memory_broker import memory_broker
from tests.support.memory_storage import MemoryStorage
from tests.unit.broker.test_receiving import settled

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def messages(probe: ConsumerProbe) -> int:
    """Return how many messages the consumer was sent."""
    return sum(each.entry.messages for each in probe.deliveries)


@pytest.mark.row("S0.40")
async def test_no_more_messages_than_granted_are_sent_except_for_the_last_batch() -> None:
    for type_ in (EXCLUSIVE, SHARED):
        async with memory_broker() as run:
            producer = await run.producer()
            await producer.publish(100, messages=4)
            consumer = await run.consumer(type_=type_, permits=10)
            await settled(run)
            assert messages(consumer) == 12
            consumer.flow(2)
            await settled(run)
            assert messages(consumer) == 12
            consumer.flow(1)
            await settled(run)
            assert messages(consumer) == 16


@pytest.mark.row("S0.41")
async def test_a_new_connection_begins_without_permits() -> None:
    async with memory_broker() as run:
        positions = await (await run.producer()).publish(3)
        first = await run.consumer()
        await settled(run)
        assert first.positions == []
        first.flow(1)
        await first.has(1)
        first.flow(100)
        assert first.consumer is not None
        first.consumer.detach()
        second = await run.consumer()
        await settled(run)
        assert second.positions == []
        second.flow(2)
        await settled(run)
        assert second.positions == positions[:2]


@pytest.mark.row("S0.42")
async def test_stored_entries_are_sent_at_once_and_later_ones_as_they_come() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        now = await producer.publish(3)
        consumer = await run.consumer(permits=10)
        await settled(run)
        assert consumer.positions == now
        later = await producer.publish(20)
        await settled(run)
        assert consumer.positions == [*now, *later[:7]]


@pytest.mark.row("S1.1")
async def test_a_flow_reads_on_and_a_publish_wakes_a_reader_at_the_end() -> None:
    async with memory_broker(tail_cache_bytes=0) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=EXCLUSIVE, permits=4)
        first = await producer.publish(3)
        await consumer.has(3)
        more = await producer.publish(3)
        await consumer.has(4)
        consumer.flow(10)
        await consumer.has(6)
        assert consumer.positions == [*first, *more]


@pytest.mark.row("S1.10")
async def test_the_redelivery_count_grows_with_requests_and_not_with_lost_connections() -> None:
    async with memory_broker() as run:
        consumer, other = await run.consumer(name="a", permits=100), await run.consumer(name="b")
        [position] = await (await run.producer()).publish(1)
        assert consumer.consumer is not None
        for count in (1, 2, 3):
            await consumer.has(count)
            if count < 3:
                consumer.consumer.redeliver([position])
        assert [each.redelivery_count for each in consumer.deliveries] == [0, 1, 2]
        other.flow(1)
        consumer.consumer.detach()
        await other.has(1)
        assert other.deliveries[0].redelivery_count == 2


@pytest.mark.row("S1.11")
async def test_an_entry_is_pending_at_its_consumer_before_its_bytes_leave() -> None:
    async with memory_broker() as run:
        held: list[list[Position]] = []

        class Dying(ConsumerProbe):
            def deliver(self, deliveries: Sequence[Delivery]) -> None:
                assert self.consumer is not None
                held.append(list(self.consumer.dispatch.pending))
                raise ConnectionError("the socket died in the write")

        dying = Dying()
        await run.attach(dying, name="a")
        other = await run.consumer(name="b")
        positions = await (await run.producer()).publish(3)
        dying.flow(2)
        assert held == [positions[:2]]
        assert len(dying.closed) == 1
        other.flow(10)
        await other.has(3)
        assert sorted(other.positions) == positions


@pytest.mark.row("S1.12")
async def test_bytes_of_delivered_entries_are_not_kept() -> None:
    async with memory_broker(tail_cache_bytes=5_000) as run:
        producer = await run.producer()
        consumer = await run.consumer()
        for _ in range(100):
            producer.send(bytes(1000))
        await producer.has_receipts(100)
        consumer.flow(1000)
        await consumer.has(100)
        await settled(run)
        assert run.broker.cache.size_bytes <= 5_000
        assert run.subscription()._machine.sending._just_read == {}


@pytest.mark.row("S1.13")
async def test_the_entries_of_one_dispatch_are_written_at_once() -> None:
    async with memory_broker() as run:
        writes: list[int] = []

        class Counting(ConsumerProbe):
            def deliver(self, deliveries: Sequence[Delivery]) -> None:
                writes.append(len(deliveries))

        await (await run.producer()).publish(100)
        counting = Counting()
        await run.attach(counting)
        counting.flow(100)
        assert writes == [100]


@pytest.mark.row("S1.14")
async def test_a_subscription_reads_one_batch_at_a_time() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage, tail_cache_bytes=0) as run:
        reads: list[int] = []
        read = log_store.read

        async def counted(*arguments: object, **named: object) -> object:
            reads.append(1)
            found = await read(*arguments, **named)  # type: ignore[arg-type]
            reads.append(-1)
            return found

        log_store.read = counted  # type: ignore[assignment]
        positions = await (await run.producer()).publish(50)
        consumer = await run.consumer()
        storage.is_answering.clear()
        for _ in range(50):
            consumer.flow(1)
            await settled(run)
        assert reads == [1]
        storage.is_answering.set()
        await consumer.has(50)
        assert consumer.positions == positions
        assert all(sum(reads[:at]) <= 1 for at in range(len(reads) + 1))


@pytest.mark.row("S1.15")
async def test_a_read_that_ends_after_its_consumer_left_does_nothing() -> None:
    storage = MemoryStorage()
    for type_ in (EXCLUSIVE, SHARED):
        async with memory_broker(storage, tail_cache_bytes=0) as run:
            await (await run.producer()).publish(5)
            consumer = await run.consumer(type_=type_, subscription=type_.value)
            storage.is_answering.clear()
            consumer.flow(10)
            await settled(run)
            assert consumer.consumer is not None
            consumer.consumer.detach()
            storage.is_answering.set()
            await settled(run)
            assert consumer.positions == []
            after = await run.consumer(type_=type_, subscription=type_.value, permits=100)
            await after.has(len(storage.entries))
            assert after.positions == sorted(storage.entries)


@pytest.mark.row("S1.16")
async def test_dispatch_stops_without_permits_and_goes_on_with_the_next_flow() -> None:
    for type_ in (EXCLUSIVE, SHARED):
        async with memory_broker() as run:
            positions = await (await run.producer()).publish(20)
            consumer = await run.consumer(type_=type_)
            for count in (5, 10, 15):
                consumer.flow(5)
                await settled(run)
                assert consumer.positions == positions[:count]


@pytest.mark.row("S1.18")
async def test_a_socket_that_takes_no_bytes_is_sent_nothing_more() -> None:
    for type_ in (EXCLUSIVE, SHARED):
        async with memory_broker() as run:
            producer = await run.producer()
            consumer = await run.consumer(type_=type_, permits=100)
            consumer.writable = False
            first = await producer.publish(1)
            await consumer.has(1)
            more = await producer.publish(10)
            await settled(run)
            assert consumer.positions == first
            consumer.writable = True
            assert consumer.consumer is not None
            consumer.consumer.writable_again()
            await settled(run)
            assert consumer.positions == [*first, *more]


@pytest.mark.row("S2.15")
async def test_the_only_negatively_acked_message_comes_back_with_the_next_permit() -> None:
    clock = ManualClock()
    async with memory_broker(clock=clock) as run:
        consumer = await run.consumer(permits=1)
        first, second = await (await run.producer()).publish(2)
        await consumer.has(1)
        assert consumer.consumer is not None
        consumer.consumer.redeliver_at([first], clock.now_ms() + 1000)
        clock.advance(999)
        run.broker.deadlines.run_due()
        consumer.flow(1)
        await settled(run)
        assert consumer.positions == [first, second]
        clock.advance(1)
        run.broker.deadlines.run_due()
        await settled(run)
        assert consumer.positions == [first, second]
        consumer.flow(1)
        await consumer.has(3)
        assert consumer.positions[2] == first


@pytest.mark.row("S2.16")
async def test_a_permit_granted_before_and_after_a_reconnect_counts_once() -> None:
    async with memory_broker() as run:
        old = await run.consumer(permits=1)
        assert old.consumer is not None
        old.consumer.detach()
        new = await run.consumer(permits=1)
        positions = await (await run.producer()).publish(3)
        await settled(run)
        assert (old.positions, new.positions) == ([], positions[:1])


@pytest.mark.row("S2.4")
async def test_a_consumer_with_one_permit_gets_one_and_the_other_gets_the_rest() -> None:
    async with memory_broker() as run:
        busy, free = await run.consumer(name="busy", permits=1), await run.consumer(name="free")
        positions = await (await run.producer()).publish(10)
        await busy.has(1)
        for count in range(1, 10):
            free.flow(1)
            await free.has(count)
            free.ack(free.positions[-1])
        await settled(run)
        assert len(busy.positions) == 1
        assert sorted([*busy.positions, *free.positions]) == positions


@pytest.mark.row("I17")
async def test_without_a_queue_one_message_is_under_way_over_reconnects() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        taken: list[Position] = []
        for life in range(5):
            consumer = await run.consumer(name=f"life {life}", permits=1)
            positions = await producer.publish(2)
            await settled(run)
            assert len(consumer.positions) == 1
            if life % 2:
                consumer.ack(consumer.positions[0])
                taken.append(consumer.positions[0])
            assert consumer.consumer is not None
            consumer.consumer.detach()
            assert positions
        assert len(set(taken)) == 2
        assert run.subscription().cursor.backlog_messages == 8
