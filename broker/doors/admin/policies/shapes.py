"""Bodies of policies, with the names that Pulsar gives to their members."""
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
    """How long, and up to which size, acknowledged messages are kept. -1: no limit."""

    retentionTimeInMinutes: int
    retentionSizeInMB: int


class BacklogQuota(PulsarObject):
    """A limit on a backlog. -1 or absent: no limit."""

    limitSize: int | None = None  # bytes
    limitTime: int | None = None  # seconds
    limit: int | None = None  # older clients send this instead of limitSize
    policy: Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"] | None = None


class DispatchRate(PulsarObject):
    """A limit on delivery. -1: no limit."""

    dispatchThrottlingRateInMsg: int = -1
    dispatchThrottlingRateInByte: int = -1
    ratePeriodInSecond: int = 1
    relativeToPublishRate: bool = False


class PublishRate(PulsarObject):
    """A limit on publishing. -1: no limit."""

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
    """Whether the broker delays messages that have a delivery time, and the longest delay it accepts (0: no limit)."""

    tickTime: int = 1000  # ms; checked, but not stored: Vela's precision is fixed
    active: bool = True
    maxDeliveryDelayInMillis: int = 0


class InactiveTopics(PulsarObject):
    """Which topics the broker deletes because nobody uses them."""

    inactiveTopicDeleteMode: Literal[
        "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"
    ] = "delete_when_no_subscriptions"
    maxInactiveDurationSeconds: int = 60
    deleteWhileInactive: bool = False
