"""Who may attach to a subscription, and by what its entries are given out then (semantics 3.1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.dispatchers.choice import DispatchOptions, dispatcher_for
from broker.core.errors import ServiceNotReady
from broker.core.subscription.types import SubscriptionType, check_attach
from broker.subscription.consumer import Consumer
from broker.subscription.limits import require_consumer_room, unacked_limits

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.dispatchers.base import Dispatcher
    from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
    from broker.core.subscription.redelivery import RedeliveryCounts
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.topic import Topic

__all__ = ["Attaching", "new_dispatcher"]


def new_dispatcher(
    topic: Topic | NonPersistentTopic,
    type_: SubscriptionType,
    key_shared: KeySharedPolicy,
    *,
    is_durable: bool,
    failover_delay_ms: int | None = None,
    counts: RedeliveryCounts | None = None,
) -> Dispatcher:
    """A dispatcher without consumers, as settings and policies want it; `failover_delay_ms` None = the setting.

    `counts`: what a subscription keeps of redeliveries whoever is connected; None where nothing comes again.
    """
    settings = topic.services.settings
    return dispatcher_for(
        type_,
        DispatchOptions(
            topic_name=topic.name.full,
            partition=None if settings.failover_consistent_hashing else topic.name.partition,
            failover_delay_ms=settings.failover_delay_ms if failover_delay_ms is None else failover_delay_ms,
            max_unacked=unacked_limits(topic, is_durable=is_durable).per_subscription,
            ring_points=settings.key_shared_points if settings.key_shared_consistent_hashing else 0,
            key_shared=key_shared,
            counts=counts,
        ),
    )


class Attaching:
    """The gate of one subscription: consumers attach one after the other."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._gate = asyncio.Lock()

    async def attach(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """See `Subscription.attach`."""
        subscription = self._subscription
        topic = subscription.topic
        services = topic.services
        async with self._gate, subscription.moves.idle():
            await subscription.acks_settled()
            if subscription.is_deleted:
                raise ServiceNotReady(
                    f"subscription {subscription.name} has just been deleted; subscribe again"
                )
            await self._let_dead_consumers_go(request)
            check_attach(request.type, current=subscription.type, consumers=len(subscription.consumers))
            await self._take_type(request)
            if not topic.is_open:
                raise ServiceNotReady(f"{topic.name} is moving; subscribe again")
            require_consumer_room(subscription)
            now_ms = services.clock.now_ms()
            dispatch = DispatchConsumer(
                key=services.next_key(),
                name=request.consumer_name,
                priority=request.priority,
                writable=sink.is_writable(),
                max_unacked=unacked_limits(topic, is_durable=subscription.is_durable).per_consumer,
                key_shared=request.key_shared,
            )
            first = subscription.dispatcher.attach(dispatch, request.type, now_ms)
            consumer = Consumer(
                subscription=subscription,
                request=request,
                identity=identity,
                sink=sink,
                dispatch=dispatch,
                now_ms=now_ms,
            )
            subscription.attached(consumer, is_first=first)
            return consumer

    async def _let_dead_consumers_go(self, request: SubscribeRequest) -> None:
        """An Exclusive consumer whose peer does not answer gives way to another one."""
        subscription = self._subscription
        if request.type is not SubscriptionType.EXCLUSIVE or subscription.type is not request.type:
            return
        for consumer in list(subscription.consumers.values()):
            if not await consumer.sink.is_alive():
                consumer.closed_by_broker("its connection does not answer and another consumer came")
                subscription.remove_consumer(consumer)

    async def _take_type(self, request: SubscribeRequest) -> None:
        """With nobody connected the first to come says what the subscription is."""
        subscription = self._subscription
        if subscription.consumers:
            return
        changes = subscription.type is not request.type
        if changes or request.type is SubscriptionType.KEY_SHARED:
            subscription.use_type(request.type, request.key_shared)
        if changes and subscription.is_durable:
            await subscription.topic.store_subscription_type(subscription)
