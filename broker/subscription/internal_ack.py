"""The broker acknowledging in a subscription's stead: redriven messages, for example."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, TopicFenced
from broker.core.ledgers.message_index import IndexMissing

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.subscription.subscription import Subscription

__all__ = ["ack_for_broker"]


async def ack_for_broker(subscription: Subscription, acks: Sequence[tuple[Position, int | None]]) -> None:
    """Acknowledge entries, or the members whose bit is 0, and wait until that is durable. Safe to repeat.

    Waits for a move of the cursor under way. Raises BrokerError when it could not be stored.
    """
    topic = subscription.topic
    durable: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    async with subscription.moves.idle():
        for position, remaining in acks:
            while True:
                try:
                    result = subscription.cursor.ack(position, remaining)
                    break
                except IndexMissing as missing:
                    await topic.reader.load_index(missing.ranges)
            subscription.messages_acked += result.messages
            subscription.dispatcher.acked(position, result.messages, result.completed)
            if result.completed and len(subscription.deadlines):
                subscription.deadlines.cancel(position)
        if not topic.is_open or subscription.is_deleted:
            raise TopicFenced(f"{topic.name} moved while messages were acknowledged")
        topic.services.flusher.when_durable(
            subscription, lambda error: None if durable.done() else durable.set_result(error)
        )
    error = await durable
    if error is not None:
        raise error
    topic.services.reporter.changed(subscription)
    subscription.pump()
