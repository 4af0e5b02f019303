"""VELA_REDELIVERY_COUNT=every_send: every delivery after the first counts."""

from __future__ import annotations

import pytest

from broker.conf import BrokerSettings, SettingInvalid
from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import ConsumerProbe
from tests.support.memory_broker import memory_broker

MULTIPLE = (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


def last_counts(probe: ConsumerProbe, last: int) -> list[int]:
    return [each.redelivery_count for each in probe.deliveries[-last:]]


@pytest.mark.row("S1.10", "I13")
@pytest.mark.parametrize("type_", MULTIPLE)
@pytest.mark.parametrize(("every_send", "count"), [(False, 1), (True, 2)])
async def test_a_lost_consumer_raises_the_count_only_if_every_send_counts(
    type_: SubscriptionType, every_send: bool, count: int
) -> None:
    async with memory_broker(counts_every_send=every_send) as run:
        consumer = await run.consumer(name="a", type_=type_, permits=100)
        await (await run.producer()).publish(1)
        await consumer.has(1)
        assert consumer.consumer is not None
        consumer.consumer.redeliver(consumer.positions[:1])
        await consumer.has(2)
        other = await run.consumer(name="b", type_=type_)
        consumer.consumer.detach()
        other.flow(1)
        await other.has(1)
        assert last_counts(consumer, 2) == [0, 1]
        assert last_counts(other, 1) == [count]


@pytest.mark.row("S1.10", "I13")
@pytest.mark.parametrize("type_", MULTIPLE)
@pytest.mark.parametrize(("every_send", "counts"), [(False, [0, 0, 0]), (True, [0, 1, 2])])
async def test_counts_outlive_the_last_consumer_only_if_every_send_counts(
    type_: SubscriptionType, every_send: bool, counts: list[int]
) -> None:
    async with memory_broker(counts_every_send=every_send) as run:
        await (await run.producer()).publish(2)
        for number, count in enumerate(counts):
            consumer = await run.consumer(name=f"c{number}", type_=type_, permits=1)
            await consumer.has(1)
            assert last_counts(consumer, 1) == [count]
            assert consumer.consumer is not None
            consumer.consumer.detach()
        last = await run.consumer(name="last", type_=type_, permits=2)
        await last.has(2)
        assert last_counts(last, 1) == [0], "the second entry was never sent before"


@pytest.mark.row("S1.10")
async def test_an_ack_ends_the_count_of_sends() -> None:
    async with memory_broker(counts_every_send=True) as run:
        consumer = await run.consumer(permits=10)
        positions = await (await run.producer()).publish(2)
        await consumer.has(2)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        consumer = await run.consumer(permits=10)
        await consumer.has(2)
        dispatcher = run.subscription().dispatcher
        assert [dispatcher.redelivery_count(each) for each in positions] == [1, 1]
        consumer.ack(positions[0])
        assert [dispatcher.redelivery_count(each) for each in positions] == [0, 1]


@pytest.mark.row("S1.10", "I13")
async def test_exclusive_counts_no_redeliveries_and_forgets_earlier_counts() -> None:
    async with memory_broker(counts_every_send=True) as run:
        await (await run.producer()).publish(1)
        for type_, count in (
            (SubscriptionType.SHARED, 0),
            (SubscriptionType.KEY_SHARED, 1),
            (SubscriptionType.EXCLUSIVE, 0),
            (SubscriptionType.EXCLUSIVE, 0),
            (SubscriptionType.SHARED, 0),
        ):
            consumer = await run.consumer(type_=type_, permits=10)
            await consumer.has(1)
            assert last_counts(consumer, 1) == [count]
            assert consumer.consumer is not None
            consumer.consumer.detach()


@pytest.mark.row("S1.10")
def test_the_setting_takes_two_values_and_by_default_only_requests_count() -> None:
    def chosen(**environment: str) -> bool:
        return BrokerSettings.from_environment(environment).counts_every_send

    assert not chosen()
    assert not chosen(VELA_REDELIVERY_COUNT="explicit")
    assert chosen(VELA_REDELIVERY_COUNT="every_send")
    with pytest.raises(SettingInvalid, match=r"VELA_REDELIVERY_COUNT is 'always'.*explicit or every_send"):
        chosen(VELA_REDELIVERY_COUNT="always")
