"""Acknowledgements that the broker itself makes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, TopicFenced

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.subscription.subscription import Subscription

__all__ = ["ack_for_broker"]


async def ack_for_broker(subscription: Subscription, acks: Sequence[tuple[Position, int | None]]) -> None:
    """Acknowledge entries, and wait until the acks are durable. Safe to repeat.

    Each position comes with a bitset of the messages that stay unacked. If the bitset is None, the whole entry is
    acked. Raises BrokerError on failure. After an error or a cancellation, some acks may have been applied.
    """
    durable: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    async with subscription.moves.idle():
        for position, remaining in acks:
            await subscription.moves.with_index(partial(subscription.ack_for_broker, position, remaining))
        if not subscription.log.is_open or subscription.is_deleted:
            raise TopicFenced(f"{subscription.log.name} moved while messages were acknowledged")
        subscription.when_durable(lambda error: None if durable.done() else durable.set_result(error))
    error = await durable
    if error is not None:
        raise error
    subscription.acked_by_broker()
