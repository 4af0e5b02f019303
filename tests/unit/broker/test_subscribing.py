"""Clients that subscribe to a topic at the same time."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.errors import MetadataInvalid, NotAllowed
from broker.core.position import EARLIEST
from tests.support.memory_broker import memory_broker
from tests.unit.broker.test_receiving import settled


async def test_a_reader_does_not_replace_a_durable_subscription_that_is_just_being_created() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        await producer.publish(1)
        async with run.topic().subscriptions.creating:
            durable = asyncio.create_task(run.consumer(permits=10))
            await settled(run)
            reader = asyncio.create_task(run.consumer(durable=False, start=EARLIEST, name="reader"))
            await settled(run)
        with pytest.raises(NotAllowed, match="durable"):
            await reader
        await producer.publish(1)
        await (await durable).has(2)


async def test_an_unsubscribe_is_refused_if_another_consumer_attaches_just_before_it() -> None:
    async with memory_broker() as run:
        first = await run.consumer()
        assert first.consumer is not None
        async with run.subscription().moves.idle():
            second = asyncio.create_task(run.consumer(permits=10, name="second"))
            await settled(run)
            removal = asyncio.create_task(first.consumer.unsubscribe(force=False))
            await settled(run)
        with pytest.raises(MetadataInvalid, match="other consumers"):
            await removal
        await (await run.producer()).publish(1)
        await (await second).has(1)
        assert first.closed == []
