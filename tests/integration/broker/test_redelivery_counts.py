"""Redelivery counts, with one test for each way in which a message comes back, and the order of replays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ManualClock, running

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


@pytest.fixture
async def still(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A broker for which time stands still until a tick moves it."""
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as started:
        yield started


def pass_ms(run: BrokerRun, ms: int) -> None:
    assert isinstance(run.clock, ManualClock)
    run.clock.advance(ms)
    run.broker.deadlines.run_due()


async def holding(
    run: BrokerRun, count: int, type_: SubscriptionType = SHARED, timeout_ms: int = 0
) -> ConsumerProbe:
    """Return a consumer that holds `count` entries. On Shared, each has been redelivered once."""
    producer = await run.producer()
    consumer = await run.consumer(type_=type_, permits=100, ack_timeout_ms=timeout_ms)
    await producer.publish(count)
    await consumer.has(count)
    assert consumer.consumer is not None
    consumer.consumer.redeliver(None)
    await consumer.has(2 * count)
    return consumer


def counts(probe: ConsumerProbe, last: int) -> list[int]:
    return [each.redelivery_count for each in probe.deliveries[-last:]]


@pytest.mark.row("I13")
async def test_a_request_for_chosen_entries_raises_the_counts_of_these_only(still: BrokerRun) -> None:
    consumer = await holding(still, 4)
    positions = consumer.positions[:4]
    assert consumer.consumer is not None
    consumer.consumer.redeliver([positions[2], positions[0]])
    await consumer.has(10)
    assert consumer.positions[8:] == [positions[0], positions[2]]  # in the log's order
    assert counts(consumer, 2) == [2, 2]
    assert still.subscription().dispatcher.redelivery_count(positions[1]) == 1


@pytest.mark.row("I13")
async def test_a_due_negative_ack_raises_the_count(still: BrokerRun) -> None:
    consumer = await holding(still, 3)
    assert consumer.consumer is not None
    consumer.consumer.redeliver_at(consumer.positions[:3], still.clock.now_ms() + 100)
    pass_ms(still, 100)
    await consumer.has(9)
    assert counts(consumer, 3) == [2, 2, 2]


@pytest.mark.row("I13")
async def test_an_ack_timeout_raises_the_count(still: BrokerRun) -> None:
    consumer = await holding(still, 3, timeout_ms=1000)
    pass_ms(still, 1000)
    await consumer.has(9)
    assert counts(consumer, 3) == [2, 2, 2]


@pytest.mark.row("I13")
async def test_redeliver_all_on_shared_raises_the_counts_and_keeps_ascending_order(still: BrokerRun) -> None:
    consumer = await holding(still, 5)
    assert consumer.consumer is not None
    consumer.consumer.redeliver(None)
    await consumer.has(15)
    assert counts(consumer, 5) == [2] * 5
    assert consumer.positions[10:] == sorted(consumer.positions[:5])


@pytest.mark.row("I13")
@pytest.mark.parametrize("how", ["close", "silence"])
async def test_a_consumers_end_leaves_the_counts_and_replays_in_ascending_order(
    still: BrokerRun, how: str
) -> None:
    consumer = await holding(still, 4)
    other = await still.consumer(name="other", permits=100)
    assert consumer.consumer is not None
    if how == "close":
        consumer.consumer.detach()
    else:
        consumer.consumer.closed_by_broker("its connection does not answer")
        still.subscription().remove_consumer(consumer.consumer)
    await other.has(4)
    assert counts(other, 4) == [1] * 4
    assert other.positions == sorted(consumer.positions[:4])


@pytest.mark.row("I13")
async def test_the_last_consumers_end_forgets_the_counts(still: BrokerRun) -> None:
    consumer = await holding(still, 3)
    assert consumer.consumer is not None
    consumer.ack(consumer.positions[1])
    consumer.consumer.detach()
    again = await still.consumer(permits=100)
    await again.has(2)
    assert counts(again, 2) == [0, 0]
    assert again.positions == [consumer.positions[0], consumer.positions[2]]


@pytest.mark.row("I13")
async def test_unloading_the_topic_forgets_the_counts(still: BrokerRun) -> None:
    await holding(still, 3)
    still.topic().log.close()
    again = await still.consumer(permits=100)
    await again.has(3)
    assert counts(again, 3) == [0, 0, 0]


@pytest.mark.row("I13")
async def test_a_broker_that_starts_again_forgets_the_counts(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as first:
        await holding(first, 3)
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as second:
        again = await second.consumer(permits=100)
        await again.has(3)
        assert counts(again, 3) == [0, 0, 0]


@pytest.mark.row("I13")
@pytest.mark.parametrize("cause", ["request", "all", "nack", "timeout", "close"])
async def test_on_exclusive_the_count_is_always_0_and_redelivery_is_in_order(
    still: BrokerRun, cause: str
) -> None:
    consumer = await holding(still, 4, EXCLUSIVE, timeout_ms=1000)
    first = consumer.positions[:4]
    attached = consumer.consumer
    assert attached is not None
    match cause:
        case "request":
            attached.redeliver([first[2]])
        case "all":
            attached.redeliver(None)
        case "nack":
            attached.redeliver_at([first[2]], still.clock.now_ms() + 100)
            pass_ms(still, 100)
        case "timeout":
            pass_ms(still, 1000)
        case "close":
            attached.detach()
            consumer = await still.consumer(type_=EXCLUSIVE, permits=100)
    await consumer.has(4 if cause == "close" else 12)
    assert consumer.positions[-4:] == first
    assert {each.redelivery_count for each in consumer.deliveries} == {0}


@pytest.mark.row("I13")
async def test_an_ack_ends_the_count_and_acked_entries_are_never_replayed(still: BrokerRun) -> None:
    consumer = await holding(still, 3)
    positions = consumer.positions[:3]
    consumer.ack(positions[1])
    assert still.subscription().dispatcher.redelivery_count(positions[1]) == 0
    assert consumer.consumer is not None
    consumer.consumer.redeliver(positions)
    await consumer.has(8)
    assert consumer.positions[6:] == [positions[0], positions[2]]
