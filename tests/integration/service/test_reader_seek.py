"""A reader that seeks comes back to the cursor that its seek moved, whatever its new request says."""

from __future__ import annotations

import pytest

from broker.core.position import LATEST
from broker.core.subscription import SubscriptionType
from broker.service import reader_return
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ManualClock, eventually, running


async def a_reader(run: BrokerRun) -> ConsumerProbe:
    # After a seek by time Apache's clients subscribe again without a place.
    return await run.consumer(
        subscription="r", type_=SubscriptionType.EXCLUSIVE, durable=False, start=LATEST, permits=50
    )


async def test_after_a_seek_by_time(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        await producer.publish(5)
        clock.advance(60_000)
        recent = await producer.publish(5)
        for since_ms, expected in ((0, 10), (clock.now_ms(), 5)):
            reader = await a_reader(run)
            assert reader.consumer is not None
            await reader.consumer.seek_time(since_ms)
            assert reader.closed
            back = await a_reader(run)
            await back.has(expected)
            assert back.positions[-5:] == recent
            assert back.consumer is not None
            back.consumer.detach()
            assert run.topic().subscriptions == {}


async def test_after_a_seek_to_a_message(run: BrokerRun) -> None:
    positions = await (await run.producer()).publish(10)
    reader = await a_reader(run)
    assert reader.consumer is not None
    await reader.consumer.seek_position(positions[7], None)
    back = await a_reader(run)
    await back.has(3)
    assert back.positions == positions[7:]


async def test_one_that_does_not_come_back_leaves_nothing(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_return, "RETURN_S", 0.0)
    positions = await (await run.producer()).publish(10)
    reader = await a_reader(run)
    assert reader.consumer is not None
    await reader.consumer.seek_position(positions[7], None)
    await eventually(lambda: run.topic().subscriptions == {}, "the cursor to go")
