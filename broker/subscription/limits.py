"""How many may come: the max_* policies, and whether connecting makes a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionNotFound

if TYPE_CHECKING:
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName

__all__ = ["require_consumer_room", "require_new_subscription"]


def require_consumer_room(
    policies: Policies, topic: TopicName, subscription: str, *, consumers: int, consumers_of_topic: int
) -> None:
    """Whether one more consumer may attach, readers included. Raises ConsumerBusy, naming the policy."""
    most = policies.max_consumers_per_subscription
    if most and consumers >= most:
        raise ConsumerBusy(
            f"subscription {subscription} of {topic} has {most} consumers, its limit"
            " (policy max_consumers_per_subscription)"
        )
    most = policies.max_consumers
    if most and consumers_of_topic >= most:
        raise ConsumerBusy(f"{topic} has {most} consumers, its limit (policy max_consumers)")


def require_new_subscription(
    policies: Policies, topic: TopicName, subscription: str, *, durable: int, by_attaching: bool
) -> None:
    """Whether one more durable subscription may be made. Raises SubscriptionNotFound, NotAllowed."""
    if by_attaching and not policies.auto_create_subscriptions:
        raise SubscriptionNotFound(
            f"{topic} has no subscription {subscription}, and connecting makes none"
            " (policy auto_create_subscriptions)"
        )
    most = policies.max_subscriptions
    if most and durable >= most:
        raise NotAllowed(f"{topic} has {most} subscriptions, its limit (policy max_subscriptions)")
