"""How many may come, and how much they may hold: the max_* policies, and whether connecting makes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionNotFound

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.topic import Topic

__all__ = ["UnackedLimits", "require_consumer_room", "require_new_subscription", "unacked_limits"]


class UnackedLimits(NamedTuple):
    """Messages that may be delivered and not acked, 0 = no limit (semantics 3.6)."""

    per_consumer: int
    per_subscription: int


def unacked_limits(topic: Topic | NonPersistentTopic, *, is_durable: bool) -> UnackedLimits:
    """The policies' limits, else the settings'. A reader's cursor has none (semantics 2.5)."""
    if not is_durable:
        return UnackedLimits(0, 0)
    policies, settings = topic.policies, topic.services.settings
    consumer, subscription = policies.max_unacked_per_consumer, policies.max_unacked_per_subscription
    return UnackedLimits(
        settings.max_unacked_per_consumer if consumer < 0 else consumer,
        settings.max_unacked_per_subscription if subscription < 0 else subscription,
    )


def require_consumer_room(subscription: Subscription) -> None:
    """Whether one more consumer may attach, readers included. Raises ConsumerBusy, naming the policy."""
    topic = subscription.topic
    policies = topic.policies
    most = policies.max_consumers_per_subscription
    if most and len(subscription.consumers) >= most:
        raise ConsumerBusy(
            f"subscription {subscription.name} of {topic.name} has {most} consumers, its limit"
            " (policy max_consumers_per_subscription)"
        )
    most = policies.max_consumers
    if most and sum(len(each.consumers) for each in topic.subscriptions.values()) >= most:
        raise ConsumerBusy(f"{topic.name} has {most} consumers, its limit (policy max_consumers)")


def require_new_subscription(topic: Topic, name: str, *, by_attaching: bool) -> None:
    """Whether a durable subscription may be made. Raises SubscriptionNotFound, NotAllowed."""
    policies = topic.policies
    if by_attaching and not policies.auto_create_subscriptions:
        raise SubscriptionNotFound(
            f"{topic.name} has no subscription {name}, and connecting makes none (policy auto_create_subscriptions)"
        )
    most = policies.max_subscriptions
    if most and sum(1 for each in topic.subscriptions.values() if each.is_durable) >= most:
        raise NotAllowed(f"{topic.name} has {most} subscriptions, its limit (policy max_subscriptions)")
