"""The request and response bodies of policies, with Pulsar's names."""
# ruff: noqa: N815 - the names are Pulsar's

from __future__ import annotations

from typing import Literal

from broker.doors.admin.request import PulsarObject

__all__ = [
    "AutoSubscriptionCreation",
    "AutoTopicCreation",
    "BacklogQuota",
    "DelayedDelivery",
    "DispatchRate",
    "InactiveTopics",
    "PublishRate",
    "Retention",
]


class Retention(PulsarObject):
    """Limits on keeping acknowledged messages. The value -1 means no limit."""

    retentionTimeInMinutes: int
    retentionSizeInMB: int


class BacklogQuota(PulsarObject):
    """A limit on a backlog. A missing value or -1 means no limit."""

    limitSize: int | None = None  # Bytes
    limitTime: int | None = None  # Seconds
    limit: int | None = None  # Older clients send `limit` instead of `limitSize`.
    policy: Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"] | None = None


class DispatchRate(PulsarObject):
    """A limit on delivery. The value -1 means no limit."""

    dispatchThrottlingRateInMsg: int = -1
    dispatchThrottlingRateInByte: int = -1
    ratePeriodInSecond: int = 1
    relativeToPublishRate: bool = False


class PublishRate(PulsarObject):
    """A limit on publishing. The value -1 means no limit."""

    publishThrottlingRateInMsg: int = -1
    publishThrottlingRateInByte: int = -1


class AutoTopicCreation(PulsarObject):
    """Whether a connecting client creates a missing topic, and with how many partitions."""

    allowAutoTopicCreation: bool = False
    topicType: Literal["partitioned", "non-partitioned"] | None = None
    defaultNumPartitions: int | None = None


class AutoSubscriptionCreation(PulsarObject):
    """Whether a subscribing client creates a missing subscription."""

    allowAutoSubscriptionCreation: bool


class DelayedDelivery(PulsarObject):
    """Whether the broker may delay messages, and for how long. A maximum delay of 0 means no limit."""

    # Milliseconds. The value is checked but not stored.
    tickTime: int = 1000
    active: bool = True
    maxDeliveryDelayInMillis: int = 0


class InactiveTopics(PulsarObject):
    """Whether and when the broker deletes unused topics."""

    inactiveTopicDeleteMode: Literal[
        "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"
    ] = "delete_when_no_subscriptions"
    maxInactiveDurationSeconds: int = 60
    deleteWhileInactive: bool = False
