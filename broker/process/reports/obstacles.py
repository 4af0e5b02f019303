"""Build the console's rows about obstacles to deliveries and about departed consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.subscription.types import SubscriptionType
from broker.process.reports.texts import storable
from broker.storage.cursors.obstacles import DepartureRow, ObstaclesRow

if TYPE_CHECKING:
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription

__all__ = ["departure_of", "obstacles_of"]

_LONGEST_FAULT: Final = 1000  # In characters


def obstacles_of(subscription: Subscription, now_ms: int) -> ObstaclesRow:
    """Return the current obstacles to a durable subscription's deliveries."""
    dispatcher, limit = subscription.dispatcher, subscription.dispatch_limit
    waiting = dispatcher.most_waiting() if isinstance(dispatcher, KeySharedDispatcher) else None
    active = dispatcher.active if subscription.type is SubscriptionType.FAILOVER else None
    return ObstaclesRow(
        subscription_id=subscription.subscription_id,
        blocked=dispatcher.blocked,
        rate_limited=limit is not None and limit.is_waiting(now_ms),
        gap=storable(subscription.gap),
        read_fault=storable(subscription.read_fault, _LONGEST_FAULT),
        active_consumer=0 if active is None else active.key,
        first_redeliveries=dispatcher.redelivery_count(subscription.cursor.read_from()),
        key_slot=-1 if waiting is None else waiting.slot,
        key_consumer=0 if waiting is None else waiting.consumer.key,
        key_waiting_entries=0 if waiting is None else waiting.waiting_entries,
        key_is_draining=waiting is not None and waiting.is_draining,
    )


def departure_of(subscription: Subscription, consumer: Consumer, now_ms: int) -> DepartureRow:
    """Return the row of a consumer that has just left."""
    return DepartureRow(
        subscription_id=subscription.subscription_id,
        name=consumer.name,
        address=consumer.identity.address,
        client_version=storable(consumer.identity.client_version),
        cause=consumer.departure.value,
        detail=storable(consumer.departure_detail),
        connected_ms=consumer.connected_ms,
        left_ms=now_ms,
    )
