"""Decide whether a consumer may attach and whether a subscription may be created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionNotFound, UnsupportedVersion

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.topic_log import TopicLog

__all__ = ["check_batches", "require_consumer_room", "require_new_subscription", "splits_batches"]

_FIRST_WITH_BATCHES: Final = 4  # Version of Pulsar's binary protocol


def require_consumer_room(
    policies: Policies, topic: TopicName, subscription: str, *, consumers: int, consumers_of_topic: int
) -> None:
    """Check that one more consumer or reader may attach. Raises ConsumerBusy if a limit is reached."""
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
    """Check that one more durable subscription may be created.

    Raises SubscriptionNotFound if `by_attaching` is True and automatic creation is disabled. Raises NotAllowed if the
    topic has reached its limit.
    """
    if by_attaching and not policies.auto_create_subscriptions:
        raise SubscriptionNotFound(
            f"{topic} has no subscription {subscription}, and connecting creates none"
            " (policy auto_create_subscriptions)"
        )
    most = policies.max_subscriptions
    if most and durable >= most:
        raise NotAllowed(f"{topic} has {most} subscriptions, its limit (policy max_subscriptions)")


def splits_batches(identity: ClientIdentity) -> bool:
    """Return whether this client can read batches."""
    return identity.protocol_version >= _FIRST_WITH_BATCHES


def check_batches(log: TopicLog, identity: ClientIdentity) -> None:
    """Raise UnsupportedVersion if this client cannot read batches but the topic has had batches.

    Batches of one message are not detected.
    """
    if not splits_batches(identity) and log.ledgers.total_messages > log.ledgers.total_entries:
        raise UnsupportedVersion(
            f"{log.name} has batches, which clients of protocol version {identity.protocol_version} cannot read;"
            " use a newer client, or set VELA_REFUSE_OLD_CLIENTS=0 to admit this one until a batch is due"
        )
