"""Settings and limits of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from broker.core.dispatchers.choice import DispatchOptions, dispatcher_for

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.dispatchers.base import Dispatcher
    from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
    from broker.core.policies import Policies
    from broker.core.subscription.redelivery import RedeliveryCounts
    from broker.core.subscription.types import SubscriptionType
    from broker.core.topic_name import TopicName

__all__ = ["SubscriptionSettings", "UnackedLimits"]


class UnackedLimits(NamedTuple):
    """How many messages may be unacked at the same time; 0 means no limit."""

    per_consumer: int
    per_subscription: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """The settings of every subscription in this process."""

    batch_index_acks: bool
    counts_every_send: bool
    failover_by_hash: bool
    failover_delay_ms: int
    filter_delay_ms: int  # Delay before a rescheduled entry is filtered again
    max_unacked: UnackedLimits
    ring_points: int  # Points of each Key_Shared consumer on the hash ring; 0 means no hash ring

    @classmethod
    def of(cls, settings: BrokerSettings) -> SubscriptionSettings:
        """Return the settings that concern subscriptions."""
        return cls(
            batch_index_acks=settings.batch_index_acks,
            counts_every_send=settings.counts_every_send,
            failover_by_hash=settings.failover_consistent_hashing,
            failover_delay_ms=settings.failover_delay_ms,
            filter_delay_ms=settings.filter_reschedule_ms,
            max_unacked=UnackedLimits(
                settings.max_unacked_per_consumer, settings.max_unacked_per_subscription
            ),
            ring_points=settings.key_shared_points if settings.key_shared_consistent_hashing else 0,
        )

    def unacked_limits(self, policies: Policies, *, is_durable: bool) -> UnackedLimits:
        """Return the limits. A policy overrides the setting. A reader's cursor has no limits."""
        if not is_durable:
            return UnackedLimits(0, 0)
        consumer, subscription = policies.max_unacked_per_consumer, policies.max_unacked_per_subscription
        return UnackedLimits(
            self.max_unacked.per_consumer if consumer < 0 else consumer,
            self.max_unacked.per_subscription if subscription < 0 else subscription,
        )

    def new_dispatcher(
        self,
        type_: SubscriptionType,
        key_shared: KeySharedPolicy,
        *,
        topic_name: TopicName,
        max_unacked: int = 0,
        failover_delay_ms: int | None = None,
        counts: RedeliveryCounts | None = None,
    ) -> Dispatcher:
        """Make a dispatcher without consumers. If `failover_delay_ms` is None, the setting applies."""
        return dispatcher_for(
            type_,
            DispatchOptions(
                topic_name=topic_name.full,
                partition=None if self.failover_by_hash else topic_name.partition,
                failover_delay_ms=self.failover_delay_ms if failover_delay_ms is None else failover_delay_ms,
                max_unacked=max_unacked,
                ring_points=self.ring_points,
                key_shared=key_shared,
                counts=counts,
            ),
        )
