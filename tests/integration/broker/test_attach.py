"""Which consumers may attach, for every type, and what a new consumer gets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionBusy
from broker.core.position import EARLIEST
from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import BrokerRun, eventually, one_row, running

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
FAILOVER, KEY_SHARED = SubscriptionType.FAILOVER, SubscriptionType.KEY_SHARED
TYPES = list(SubscriptionType)


@pytest.fixture
async def run(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A broker in which Failover switches at once, because these tests are not about the delay."""
    async with running(broker_url, failover_delay_ms=0) as started:
        yield started


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("current", TYPES)
async def test_the_first_consumer_decides_the_subscription_type(
    run: BrokerRun, current: SubscriptionType, wanted: SubscriptionType
) -> None:
    first = await run.consumer(type_=current, name="first")
    if wanted is not current:
        with pytest.raises(SubscriptionBusy, match=current.value):
            await run.consumer(type_=wanted, name="second")
    elif wanted is EXCLUSIVE:
        with pytest.raises(ConsumerBusy):
            await run.consumer(type_=wanted, name="second")
    else:
        await run.consumer(type_=wanted, name="second")
    assert first.closed == []
    for consumer in list(run.subscription().consumers.values()):
        consumer.detach()
    await run.consumer(type_=wanted, name="third")
    assert run.subscription().type is wanted
    assert one_row(run.database_url, "SELECT type FROM vela_subscription") == (wanted.value,)


@pytest.mark.parametrize("type_", [SHARED, FAILOVER, KEY_SHARED])
async def test_silent_consumers_of_other_types_are_not_closed(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    silent = await run.consumer(type_=type_)
    silent.alive = False
    with pytest.raises(SubscriptionBusy):
        await run.consumer(type_=EXCLUSIVE)
    assert silent.closed == []


@pytest.mark.parametrize(
    ("type_", "allowed"), [(EXCLUSIVE, True), (FAILOVER, True), (SHARED, False), (KEY_SHARED, False)]
)
async def test_compacted_reads_are_for_one_consumer_at_a_time(
    run: BrokerRun, type_: SubscriptionType, allowed: bool
) -> None:
    if allowed:
        consumer = await run.consumer(type_=type_, permits=10, read_compacted=True)
        await (await run.producer()).publish(2)
        await consumer.has(2)
        return
    with pytest.raises(NotAllowed, match="readCompacted"):
        await run.consumer(type_=type_, read_compacted=True)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (0,)


@pytest.mark.parametrize("type_", TYPES)
async def test_readers_of_every_type_come_and_go_without_a_trace(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    positions = await (await run.producer()).publish(3)
    reader = await run.consumer(type_=type_, durable=False, start=EARLIEST, permits=10)
    await reader.has(3)
    assert reader.positions == positions
    assert reader.consumer is not None
    reader.consumer.detach()
    assert "s" not in run.topic().subscriptions
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (0,)


@pytest.mark.row("S0.44")
@pytest.mark.parametrize("type_", TYPES)
async def test_permits_of_an_old_connection_are_ignored(run: BrokerRun, type_: SubscriptionType) -> None:
    producer = await run.producer()
    old = await run.consumer(type_=type_, permits=2)
    await producer.publish(5)
    await old.has(2)
    assert old.consumer is not None
    old.consumer.detach()
    new = await run.consumer(type_=type_)
    old.flow(100)
    await producer.publish(5)
    assert (len(old.deliveries), new.deliveries) == (2, [])
    assert new.consumer is not None
    assert new.consumer.dispatch.permits.balance == 0
    new.flow(10)
    await new.has(10)
    assert [each.redelivery_count for each in new.deliveries] == [0] * 10


@pytest.mark.row("I17")
@pytest.mark.parametrize("type_", TYPES)
async def test_a_zero_queue_consumer_has_at_most_one_message(run: BrokerRun, type_: SubscriptionType) -> None:
    """The consumer grants one permit at a time and gets one message at a time, even after it reconnects."""
    producer = await run.producer()
    positions = await producer.publish(12)
    taken = []
    consumer = await run.consumer(type_=type_)
    for turn in range(12):
        consumer.flow(1)
        await consumer.has(1)
        assert len(consumer.deliveries) == 1
        taken.append(consumer.positions[0])
        consumer.ack(consumer.positions[0])
        consumer.deliveries.clear()
        if turn % 4 == 3:
            assert consumer.consumer is not None
            consumer.flow(1)
            consumer.consumer.detach()
            consumer = await run.consumer(type_=type_)
    assert taken[:4] == positions[:4]
    assert set(taken) <= set(positions)


@pytest.mark.row("S2.4")
async def test_a_busy_zero_queue_consumer_leaves_the_rest_to_the_other(run: BrokerRun) -> None:
    busy, free = await run.consumer(name="busy", permits=1), await run.consumer(name="free")
    producer = await run.producer()
    await producer.publish(10)
    await busy.has(1)
    for count in range(1, 10):
        free.flow(1)
        await free.has(count)
    free.flow(1)
    assert (len(busy.deliveries), len(free.deliveries)) == (1, 9)
    await eventually(lambda: run.subscription().dispatcher.unacked_messages == 10, "ten in flight")
