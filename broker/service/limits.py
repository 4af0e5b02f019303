"""How many may come: the max_* policies of consumers and subscriptions, and whether connecting makes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionNotFound

if TYPE_CHECKING:
    from broker.service.subscription import Subscription
    from broker.service.topic import Topic

__all__ = ["require_consumer_room", "require_new_subscription"]


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
