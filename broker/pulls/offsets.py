"""Read and commit the offsets of consumer groups that pull.

A group is a durable subscription. A commit is a cumulative ack.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core.errors import (
    BrokerError,
    NotAllowed,
    ServiceNotReady,
    SubscriptionBusy,
    SubscriptionNotFound,
)
from broker.core.position import EARLIEST
from broker.core.subscription.types import SubscriptionType, check_name
from broker.pulls.reader import bounds
from broker.storage.acts import acts as act_store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.pulls.parked import ParkedPulls
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["GroupOffsets"]


class GroupOffsets:
    """Reads and commits offsets. Calls `changed` after a commit that moves an offset."""

    def __init__(
        self,
        pulls: ParkedPulls,
        pool: ConnectionPool,
        changed: Callable[[Subscription], None],
    ) -> None:
        self._pulls = pulls
        self._pool = pool
        self._changed = changed

    async def committed(self, topic: Topic, name: str) -> int:
        """Return the offset of the group's next message. Raises SubscriptionNotFound or ServiceNotReady."""
        subscription = topic.subscriptions.get(name)
        if subscription is None or not subscription.is_durable:
            raise SubscriptionNotFound(f"no group {name} has committed an offset of {topic.name}")
        return await _offset_of(topic, subscription)

    async def commit(self, topic: Topic, name: str, offset: int, peer: str) -> int:
        """Store durably that the group has consumed everything before `offset`. Safe to repeat.

        Creates the group if it does not exist. Never moves the offset back. Returns the group's offset, which is higher
        than `offset` if the group had already consumed more. `peer` is the client's address without the port.

        Raises SubscriptionBusy while consumers are attached to the subscription. Raises NotAllowed for an invalid name
        or an offset beyond the end of the topic. Raises ServiceNotReady if the topic changes during the call. Raises
        PersistenceFailed or TopicFenced if the offset cannot be stored.
        """
        check_name(name)
        low, end = bounds(topic)
        if offset > end:
            raise NotAllowed(
                f"offset {offset} is beyond the end of {topic.name}, {end}: commit an offset of this queue"
            )
        is_new = name not in topic.subscriptions
        subscription = await topic.subscriptions.find_or_create(
            name, SubscriptionType.EXCLUSIVE, EARLIEST, {}
        )
        async with subscription.moves.idle():
            if subscription.consumers:
                raise SubscriptionBusy(
                    f"subscription {name} of {topic.name} has {len(subscription.consumers)} consumers attached, which"
                    " ack for themselves; choose another group name"
                )
            kept = await _offset_of(topic, subscription)
            is_move = offset > max(low, kept)
            if is_new or is_move:
                # Record the commit for the console before the cursor moves.
                await self._record(topic, subscription, None if is_new else kept, max(kept, offset), peer)
            if is_move:
                await self._ack_before(topic, subscription, offset)
            if not subscription.is_stored:  # An earlier commit or ack may not be stored yet
                await self._stored(subscription)
        return await _offset_of(topic, subscription)

    async def _record(
        self, topic: Topic, subscription: Subscription, from_offset: int | None, offset: int, peer: str
    ) -> None:
        await repeat_until_done(
            self._pool,
            lambda c: act_store.record_commit(
                c,
                topic_id=topic.topic_id,
                subscription_id=subscription.subscription_id,
                topic_name=topic.name.full,
                subscription_name=subscription.name,
                parameters=json.dumps({"from_offset": from_offset, "offset": offset}),
                offset=offset,
                who="pull consumer",
                origin=f"client {peer}",
                cursor_version=subscription.cursor.version,
            ),
            what="writing an act",
        )

    async def _ack_before(self, topic: Topic, subscription: Subscription, offset: int) -> None:
        position, before = await self._pulls.place(topic, offset - 1)
        messages = 0

        def ack() -> None:
            nonlocal messages
            messages = topic.log.index.messages_in(position) or 0
            # In `remaining`, each set bit is an unconsumed message of the entry.
            done = offset - before
            remaining = None if done >= messages else ((1 << messages) - 1) & ~((1 << done) - 1)
            acked = subscription.cursor.totals.messages
            subscription.cursor.ack_through(position, remaining)
            subscription.counters.messages_acked += subscription.cursor.totals.messages - acked
            subscription.mark_dirty()

        await topic.reader.load_index(topic.log.index.unknown(position))
        await subscription.moves.with_index(ack)
        self._changed(subscription)

    async def _stored(self, subscription: Subscription) -> None:
        stored: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()

        def durable(error: BrokerError | None) -> None:
            if not stored.done():
                stored.set_result(error)

        subscription.when_durable(durable)
        error = await stored
        if error is not None:
            raise error


async def _offset_of(topic: Topic, subscription: Subscription) -> int:
    cursor = subscription.cursor
    index, following = topic.log.index, topic.log.ledgers.next_after(cursor.mark_delete)
    await topic.reader.load_index(index.unknown(cursor.mark_delete))
    through = index.messages_through(cursor.mark_delete)
    if through is None:
        raise ServiceNotReady(f"{topic.name} changed while an offset was looked for; ask again")
    remaining = cursor.remaining_of(following)
    if not remaining:
        return through
    # The lowest set bit is the first unacked message of the entry after mark-delete.
    return through + (remaining & -remaining).bit_length() - 1
