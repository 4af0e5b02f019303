"""Request acts on topics as the console, the commands and the API do."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from broker.acts import requests as acts
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage.connection import connect
from broker.storage.topics import topics as topic_store
from tests.support.broker_harness import BrokerRun, ProducerProbe

T = "persistent://public/default/t"
P = "persistent://public/default/p"


async def plan(kind: str, topic: str = T, **parameters: Any) -> acts.ActView:
    """Request a plan, in a thread because the requesting side is synchronous."""
    return await asyncio.to_thread(
        partial(acts.plan, kind, topic=topic, parameters=parameters, who="op", origin="test", wait_s=8)
    )


async def apply(act: acts.ActView) -> acts.ActView:
    """Apply a plan."""
    return await asyncio.to_thread(partial(acts.apply, act.id, who="op", origin="test", wait_s=8))


async def done(kind: str, topic: str = T, **parameters: Any) -> acts.ActView:
    """Plan and apply an act, which must succeed."""
    planned = await plan(kind, topic, **parameters)
    assert planned.state == "planned", planned.error
    applied = await apply(planned)
    assert applied.state == "applied", applied.error
    return applied


async def one_by_one(producer: ProducerProbe, count: int) -> list[Position]:
    """Publish each message in a separate commit, so that a ledger can end after any message."""
    return [(await producer.publish(1))[0] for _ in range(count)]


async def partitioned(run: BrokerRun, partitions: int, topic: str = P) -> None:
    connection = await connect(run.database_url, name="test")
    await topic_store.create_topic(connection, TopicName.parse(topic), partitions=partitions, policies={})
    await connection.close()
