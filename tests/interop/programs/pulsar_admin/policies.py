"""Questions about policies of a namespace and of a topic: set one, read it, remove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.interop.programs.pulsar_admin.tool import Tool, check

__all__ = ["namespace_policies", "namespace_policies_more", "topic_policies"]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: the end of its commands' names, the options that set it, and the value that is then read."""

    name: str
    options: str
    value: Any
    read: str = ""  # the end of the reading command's name, if it differs
    unset: str = ""  # the options that remove it, if there is no command for that


_RETENTION = Policy(
    "retention", "--size 10M --time 2h", {"retentionTimeInMinutes": 120, "retentionSizeInMB": 10}
)
_INACTIVE = Policy(
    "inactive-topic-policies",
    "--enable-delete-while-inactive --delete-mode delete_when_no_subscriptions --max-inactive-duration 1h",
    {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 3600,
        "deleteWhileInactive": True,
    },
)
_DELAYED = Policy(
    "delayed-delivery",
    "--enable --time 1s --maxDelay 1h",
    {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 3_600_000},
)
_AUTO_SUBSCRIPTION = Policy("auto-subscription-creation", "--enable", {"allowAutoSubscriptionCreation": True})
_QUOTA = (
    "destination_storage    BacklogQuotaImpl(limit=10485760, limitSize=10485760, limitTime=-1, "
    "policy=producer_exception)"
)


def _dispatch(name: str) -> Policy:
    return Policy(
        name,
        "--msg-dispatch-rate 100 --byte-dispatch-rate 10000",
        {
            "dispatchThrottlingRateInMsg": 100,
            "dispatchThrottlingRateInByte": 10000,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        },
    )


_PUBLISH = Policy(
    "publish-rate",
    "--msg-publish-rate 100 --byte-publish-rate 10000",
    {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 10000},
)

_OF_NAMESPACE = (
    _RETENTION,
    Policy("backlog-quota", "--limit 10M --policy producer_exception", _QUOTA, read="backlog-quotas"),
    Policy("message-ttl", "--messageTTL 100", 100),
    _dispatch("dispatch-rate"),
    _dispatch("subscription-dispatch-rate"),
    _PUBLISH,
    Policy("max-producers-per-topic", "-p 10", 10),
    Policy("max-consumers-per-topic", "-c 10", 10),
    Policy("max-consumers-per-subscription", "-c 10", 10),
    Policy("compaction-threshold", "--threshold 100M", 100 * 1024**2),
    Policy(
        "schema-compatibility-strategy", "--compatibility FULL", "FULL", unset="--compatibility UNDEFINED"
    ),
    Policy("schema-validation-enforce", "--enable", True, unset="--disable"),
    Policy(
        "auto-topic-creation",
        "--enable --type partitioned --num-partitions 2",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
    ),
    _INACTIVE,
    Policy("subscription-expiration-time", "--time 60", 60),
)
_MORE_OF_NAMESPACE = (
    Policy("deduplication", "--enable", True),
    _DELAYED,
    Policy("max-unacked-messages-per-consumer", "-c 100", 100),
    Policy("max-unacked-messages-per-subscription", "-c 1000", 1000),
    Policy("max-subscriptions-per-topic", "-m 10", 10),
    _AUTO_SUBSCRIPTION,
)
_OF_TOPIC = (
    _RETENTION,
    Policy("backlog-quota", "--limit 10M --policy producer_exception", _QUOTA),
    Policy("message-ttl", "--ttl 100", 100),
    Policy("deduplication", "--enable", True),
    _dispatch("dispatch-rate"),
    _dispatch("subscription-dispatch-rate"),
    _PUBLISH,
    Policy("max-producers", "-p 10", 10),
    Policy("max-consumers", "-c 10", 10),
    Policy("max-consumers-per-subscription", "-c 10", 10),
    Policy("max-unacked-messages-per-consumer", "-m 100", 100),
    Policy("max-unacked-messages-per-subscription", "-m 1000", 1000),
    Policy("max-subscriptions-per-topic", "-s 10", 10),
    Policy("max-message-size", "-m 1000", 1000),
    Policy("compaction-threshold", "--threshold 100M", 100 * 1024**2),
    Policy("schema-compatibility-strategy", "--strategy FULL", "FULL"),
    _DELAYED,
    _INACTIVE,
    _AUTO_SUBSCRIPTION,
)


def _try(admin: Tool, group: str, subject: str, policy: Policy) -> None:
    read = f"{group} get-{policy.read or policy.name} {subject}"
    verb = "set" if policy.unset else "remove"
    remove = f"{group} {verb}-{policy.name} {subject} {policy.unset}"
    admin(remove)  # first, because a new namespace already has a retention
    before = admin.value(read)
    admin(f"{group} set-{policy.name} {subject} {policy.options}")
    check(admin.value(read), policy.value, policy.name)
    admin(remove)
    check(admin.value(read), before, f"{policy.name}, removed")


def namespace_policies(admin: Tool, namespace: str) -> None:
    for policy in _OF_NAMESPACE:
        _try(admin, "namespaces", namespace, policy)


def namespace_policies_more(admin: Tool, namespace: str) -> None:
    for policy in _MORE_OF_NAMESPACE:
        _try(admin, "namespaces", namespace, policy)


def topic_policies(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    for policy in _OF_TOPIC:
        _try(admin, "topicPolicies", topic, policy)
