"""The broker's half of receiving: permits, pending messages, redelivery."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from tests.support.broker_harness import ConsumerProbe, ManualClock, eventually
from tests.support.memory_broker import MemoryRun, memory_broker
from tests.unit.doors.wire_client import WireClient
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

EXCLUSIVE = SubscriptionType.EXCLUSIVE


async def settled(run: MemoryRun) -> None:
    """Wait until everything published is stored, and delivered as far as permits allow."""
    await run.broker.writer.drain()
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.row("S0.22")
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["publish", "flow", "pause"]), st.integers(0, 2), st.integers(1, 5)),
        max_size=30,
    )
)
def test_flows_and_appends_that_race_neither_repeat_nor_lose_messages(
    steps: list[tuple[str, int, int]],
) -> None:
    async def run_steps() -> None:
        async with memory_broker(tail_cache_bytes=2000) as run:
            producer = await run.producer()
            consumers = [await run.consumer(name=f"c{number}") for number in range(3)]
            for step, who, count in steps:
                if step == "publish":
                    for _ in range(count):
                        producer.send()
                elif step == "flow":
                    consumers[who].flow(count)
                else:
                    await asyncio.sleep(0)
            consumers[0].flow(1000)
            await producer.has_receipts(producer.next_sequence_id)
            await settled(run)
            got = sorted(int(each) for consumer in consumers for each in consumer.payloads)
            assert got == list(range(producer.next_sequence_id))

    asyncio.run(run_steps())


@pytest.mark.row("S0.23")
async def test_nothing_is_sent_without_permits_and_sent_messages_stay_with_their_consumer() -> None:
    async with memory_broker() as run:
        first, second = await run.consumer(name="a"), await run.consumer(name="b")
        producer = await run.producer()
        positions = await producer.publish(3)
        await settled(run)
        assert (first.positions, second.positions) == ([], [])
        first.flow(2)
        second.flow(10)
        await second.has(1)
        await settled(run)
        assert (first.positions, second.positions) == (positions[:2], positions[2:])
        assert first.consumer is not None
        first.consumer.detach()
        await second.has(3)
        assert second.positions == [positions[2], *positions[:2]]


@pytest.mark.row("S0.24")
async def test_a_consumer_that_has_left_is_skipped_in_its_turn() -> None:
    """A consumer leaves while the broker writes to another one. It had been chosen, but had got no message yet."""
    async with memory_broker() as run:

        class Pusher(ConsumerProbe):
            def deliver(self, deliveries: Sequence[Delivery]) -> None:
                super().deliver(deliveries)
                assert leaver.consumer is not None
                leaver.consumer.detach()

        pusher, leaver = Pusher(), ConsumerProbe()
        positions = await (await run.producer()).publish(25)
        for name, probe in (("a", pusher), ("b", leaver)):
            await run.attach(probe, name=name)
        assert leaver.consumer is not None
        leaver.consumer.dispatch.writable = False
        leaver.flow(100)
        leaver.consumer.dispatch.writable = True  # from here on, one turn can choose both consumers
        pusher.flow(10)
        await pusher.has(10)
        third = await run.consumer(name="c", permits=100)
        await third.has(15)
        assert leaver.positions == []
        assert (pusher.positions, third.positions) == (positions[:10], positions[10:])


@pytest.mark.row("S0.27")
async def test_a_batch_for_a_consumer_of_single_messages_goes_to_another_consumer() -> None:
    async with memory_broker() as run:
        single = await run.consumer(name="single", permits=1)
        [position] = await (await run.producer()).publish(1, messages=10)
        await single.has(1)
        other = await run.consumer(name="other", permits=1)
        await settled(run)
        assert other.positions == []
        assert single.consumer is not None
        single.consumer.detach()
        await other.has(1)
        assert other.positions == [position]
        assert other.deliveries[0].remaining is None
        assert other.deliveries[0].redelivery_count == 0


@pytest.mark.row("S0.28")
async def test_an_entry_counts_as_unacked_with_its_messages() -> None:
    for type_ in (SubscriptionType.SHARED, EXCLUSIVE):
        async with memory_broker() as run:
            consumer = await run.consumer(type_=type_, permits=100)
            [position] = await (await run.producer()).publish(1, messages=7)
            await consumer.has(1)
            assert run.subscription().dispatcher.unacked_messages == 7
            await consumer.ack_durably(position, remaining=0b1111)
            assert run.subscription().dispatcher.unacked_messages == 4


@pytest.mark.row("S0.39")
async def test_messages_published_without_consumers_are_kept() -> None:
    async with memory_broker(tail_cache_bytes=0) as run:
        consumer = await run.consumer(permits=10)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        positions = await (await run.producer()).publish(100)
        assert run.subscription().cursor.backlog_messages == 100
        again = await run.consumer(permits=1000)
        await again.has(100)
        assert again.positions == positions


@pytest.mark.row("S0.43")
async def test_permits_granted_one_by_one_or_together_add_up_to_the_same() -> None:
    async with memory_broker() as run:
        one, other = await run.consumer(subscription="a"), await run.consumer(subscription="b")
        for permits in (1, 1, 1, 4, 5):
            one.flow(permits)
        other.flow(12)
        producer = await run.producer()
        await producer.publish(20)
        await settled(run)
        assert (len(one.positions), len(other.positions)) == (12, 12)
        await producer.publish(20)
        one.flow(3)
        await settled(run)
        assert len(one.positions) == 15


@pytest.mark.row("S0.44")
async def test_a_connection_that_was_replaced_counts_for_nothing() -> None:
    async with memory_broker() as run:
        old = await run.consumer(type_=EXCLUSIVE, permits=100)
        old.alive = False
        positions = await (await run.producer()).publish(10)
        await old.has(10)
        new = await run.consumer(type_=EXCLUSIVE, name="new", permits=4)
        assert len(old.closed) == 1
        old.flow(1000)
        old.ack(positions[0])
        await settled(run)
        assert new.positions == positions[:4]
        assert new.consumer is not None
        assert new.consumer.dispatch.permits.balance == 0
        assert run.subscription().cursor.backlog_messages == 10


@pytest.mark.row("S0.45")
async def test_the_ack_timeout_of_an_entry_begins_with_its_delivery() -> None:
    clock = ManualClock()
    async with memory_broker(clock=clock) as run:
        consumer = await run.consumer(permits=5, ack_timeout_ms=1000)
        producer = await run.producer()
        [batch] = await producer.publish(1, messages=5)
        [late] = await producer.publish(1)
        await consumer.has(1)
        clock.advance(600)
        await consumer.ack_durably(batch, remaining=0b1)
        consumer.flow(100)
        await consumer.has(2)
        clock.advance(500)
        run.broker.deadlines.run_due()
        await consumer.has(3)
        assert consumer.positions == [batch, late, batch]
        assert consumer.deliveries[2].remaining == 0b1
        clock.advance(500)
        run.broker.deadlines.run_due()
        await consumer.has(4)
        assert consumer.positions[3] == late


@pytest.mark.row("S0.46")
async def test_shown_permits_are_none_when_the_clients_queue_is_full() -> None:
    async with memory_broker() as run:
        consumer = await run.consumer(permits=10)
        producer = await run.producer()
        await producer.publish(4)
        await settled(run)
        assert [each.permits for each in await run.reported_consumers()] == [6]
        await producer.publish(20)
        await settled(run)
        assert [each.permits for each in await run.reported_consumers()] == [0]
        consumer.flow(30)
        await settled(run)
        assert [each.permits for each in await run.reported_consumers()] == [16]


@pytest.mark.row("S0.50")
async def test_one_permit_brings_one_message() -> None:
    async with memory_broker() as run:
        consumer = await run.consumer()
        positions = await (await run.producer()).publish(3)
        for count in (1, 2, 3):
            consumer.flow(1)
            await settled(run)
            assert consumer.positions == positions[:count]


@pytest.mark.row("I21")
async def test_a_late_consumer_gets_entries_that_no_earlier_one_could_take() -> None:
    """The earlier consumers have spent their permits, are blocked, cannot be written to, or never had permits."""
    async with memory_broker(max_unacked_per_consumer=2) as run:
        spent, blocked = await run.consumer(name="a", permits=1), await run.consumer(name="b", permits=100)
        stuck, mute = await run.consumer(name="c", permits=100), await run.consumer(name="d")
        stuck.writable = False
        assert stuck.consumer is not None
        stuck.consumer.dispatch.writable = False
        positions = await (await run.producer()).publish(30)
        await settled(run)
        assert [len(each.positions) for each in (spent, blocked, stuck, mute)] == [1, 2, 0, 0]
        fresh: list[ConsumerProbe] = []
        while sum(len(each.positions) for each in fresh) < 27:
            fresh.append(await run.consumer(name=f"e{len(fresh)}", permits=100))
            await settled(run)
            assert fresh[-1].positions
        everybody: list[Position] = [p for each in (spent, blocked, *fresh) for p in each.positions]
        assert sorted(everybody) == positions


@pytest.mark.row("I21")
async def test_a_publish_is_delivered_at_once_to_consumers_with_permits() -> None:
    async with memory_broker() as run:
        consumer = await run.consumer(permits=2)
        producer = await run.producer()
        for count in (1, 2):
            await producer.publish(1)
            await consumer.has(count)


@pytest.mark.row("I15")
async def test_a_delayed_message_is_not_early_after_the_clock_was_set_back() -> None:
    clock, half_an_hour_ms = ManualClock(), 1_800_000
    async with memory_broker(clock=clock) as run:
        producer, consumer = await run.producer(), await run.consumer(permits=10)
        await producer.publish(1)
        await consumer.has(1)
        clock.advance(-2 * half_an_hour_ms)
        producer.send(deliver_at_ms=clock.now_ms() + half_an_hour_ms)
        await producer.has_receipts(2)
        await settled(run)
        assert len(consumer.deliveries) == 1
        clock.advance(half_an_hour_ms)
        run.broker.deadlines.run_due()
        await consumer.has(2)


async def test_messages_of_a_lost_connection_do_not_go_to_its_other_consumers() -> None:
    async with memory_broker() as run:
        client = WireClient(cast(Any, run.broker))
        await client.subscribe(1, type_=SubType.SHARED)
        await client.subscribe(2, type_=SubType.SHARED)
        client.tell(commands.flow(1, 2), commands.flow(2, 5))
        await (await run.producer("orders")).publish(3)
        subscription = run.subscription("orders")
        # On a slow machine, the connection's turn may end before the last message.
        await eventually(lambda: subscription.counters.messages_out == 3, "the messages to be written")
        assert client.names() == ["MESSAGE"] * 3
        client.connection.lost()
        assert subscription.counters.messages_out == 3
        assert not subscription.consumers
        other = await run.consumer("orders", permits=10)
        await other.has(3)
