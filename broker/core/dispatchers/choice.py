"""Choose the dispatcher for a subscription type."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.dispatchers.base import Dispatcher
from broker.core.dispatchers.failover import FailoverDispatcher
from broker.core.dispatchers.hash_ring import DEFAULT_POINTS
from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy
from broker.core.dispatchers.shared import SharedDispatcher
from broker.core.dispatchers.single_active import SingleActiveDispatcher
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.types import SubscriptionType

__all__ = ["DispatchOptions", "dispatcher_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """Options for the dispatchers of one subscription."""

    topic_name: str = ""
    partition: int | None = None
    failover_delay_ms: int = 0
    max_unacked: int = 0  # Limit for all consumers together; 0 for no limit
    max_read_entries: int = 100
    ring_points: int = DEFAULT_POINTS  # Points per consumer on the Key_Shared hash ring; 0 for no ring
    key_shared: KeySharedPolicy = AUTO_SPLIT
    counts: RedeliveryCounts | None = None


def dispatcher_for(subscription_type: SubscriptionType, options: DispatchOptions | None = None) -> Dispatcher:
    """Return a new dispatcher for this type."""
    options = options or DispatchOptions()
    reads = options.max_read_entries
    match subscription_type:
        case SubscriptionType.EXCLUSIVE:
            return SingleActiveDispatcher(max_read_entries=reads)
        case SubscriptionType.FAILOVER:
            return FailoverDispatcher(
                topic_name=options.topic_name,
                partition=options.partition,
                delay_ms=options.failover_delay_ms,
                max_read_entries=reads,
            )
        case SubscriptionType.SHARED:
            return SharedDispatcher(
                max_unacked=options.max_unacked, max_read_entries=reads, counts=options.counts
            )
        case SubscriptionType.KEY_SHARED:
            return KeySharedDispatcher(
                policy=options.key_shared,
                ring_points=options.ring_points,
                max_unacked=options.max_unacked,
                max_read_entries=reads,
                counts=options.counts,
            )
