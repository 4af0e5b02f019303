"""Publish messages for tests of acts, and receive those that are left after an act."""

from __future__ import annotations

from typing import Any

from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage.connection import connect
from broker.storage.topics import topics as topic_store
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
)


async def partitioned(run: BrokerRun, partitions: int, name: str = "p") -> None:
    """Make a partitioned topic."""
    connection = await connect(run.database_url, name="test")
    await topic_store.create_topic(connection, TopicName.parse(name), partitions=partitions, policies={})
    await connection.close()


async def ten(run: BrokerRun, *, messages: int = 1) -> list[Position]:
    """Make a subscription without a consumer, publish ten entries, and return their positions."""
    consumer = await run.consumer()
    producer = await run.producer()
    positions = await producer.publish(10, messages=messages)
    assert consumer.consumer is not None
    consumer.consumer.detach()
    return positions


async def rest_of(run: BrokerRun, subscription: str = "s") -> ConsumerProbe:
    """Return a consumer that has received everything in the backlog."""
    consumer = await run.consumer(subscription=subscription, permits=1000)
    waiting = run.subscription(subscription=subscription).cursor.backlog_entries
    if waiting:
        await consumer.has(waiting)
    return consumer


def filled(value: Any, positions: list[Position]) -> Any:
    """Put positions in place of "{0}", "{1}" … if the value is a text."""
    if not isinstance(value, str):
        return value
    for at, position in enumerate(positions):
        value = value.replace(f"{{{at}}}", str(position))
    return value
