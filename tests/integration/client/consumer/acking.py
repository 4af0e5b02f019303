"""Read what the scripted broker received, for tests of acks, ack timeouts and letters."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import Desk
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.message import Message
from vela.options import ConsumerType

SHARED = ConsumerType.Shared


async def take(consumer: TopicConsumer, count: int) -> list[Message]:
    async with asyncio.timeout(10):
        return [await consumer.receive() for _ in range(count)]


def asked(desk: Desk) -> list[list[int]]:
    """Return the entries of every redelivery request so far; [] is a request for everything."""
    return [[entry_id for _, entry_id in each.positions] for each in desk.peer.of(events.Redeliver)]


def acked(desk: Desk) -> list[list[Any]]:
    """Return the entries of every ack command. A partly acked entry is a pair: the entry, and its unacked bits."""
    return [
        [each.entry_id if each.ack_set is None else (each.entry_id, each.ack_set) for each in ack.ids]
        for ack in desk.peer.of(events.Ack)
    ]
