"""A table that converts Pulsar's policies to Vela's and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.core.policies import SchemaCompatibility
from broker.core.subscription.delivery_deadlines import BUCKET_MS
from broker.doors.admin.policies.shapes import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    PublishRate,
    Retention,
)
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import Number

__all__ = ["POLICIES", "AdminPolicy", "Values", "completed", "rounded_up"]

Values = Mapping[str, Any]  # Vela's policies by name

_MIB: Final = 1024 * 1024
_UNDEFINED: Final = "UNDEFINED"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPolicy:
    """A policy of Pulsar, and how to convert its value to Vela's policies."""

    names: tuple[str, ...]  # Names of Vela's policies
    body: Any
    read: Callable[[Values], Any]  # Called only if at least one of `names` is set
    write: Callable[[Any], dict[str, object]]  # None in the result unsets a policy. May raise Refused.
    namespace: str = ""  # Path under a namespace. Empty if namespaces do not have the policy.
    topic: str = ""  # Path under a topic. Empty if topics do not have the policy.
    namespace_verb: str = "POST"
    topic_verb: str = "POST"
    member: str = ""  # Name of the policy in the JSON object with all policies of a namespace
    by_cluster: bool = False  # Whether the member's value is a map from clusters to values
    unset: Any = None  # Answer to a GET while all of `names` are unset. If None, the status is 204.


def rounded_up(value: int, unit: int) -> int:
    """Convert to a larger unit and round up. Rounding down could give 0, which often means no limit."""
    return -(-value // unit) if value > 0 else value


def _number(
    name: str,
    *,
    namespace: str = "",
    topic: str = "",
    unit: int = 1,
    member: str = "",
    namespace_verb: str = "POST",
    least: int = 0,
) -> AdminPolicy:
    def write(value: int) -> dict[str, object]:
        if value < least:
            raise Refused(412, f"{namespace or topic} is {value}: it takes a number of at least {least}")
        return {name: value * unit if value > 0 else value}

    return AdminPolicy(
        names=(name,),
        body=Number,
        read=lambda values: rounded_up(values[name], unit),
        write=write,
        namespace=namespace,
        topic=topic,
        namespace_verb=namespace_verb,
        member=member,
    )


def _flag(
    name: str, *, namespace: str = "", topic: str = "", member: str = "", unset: bool | None = None
) -> AdminPolicy:
    return AdminPolicy(
        names=(name,),
        body=bool,
        read=lambda values: values[name],
        write=lambda value: {name: value},
        namespace=namespace,
        topic=topic,
        member=member,
        unset=unset,
    )


def _read_retention(values: Values) -> Retention:
    time_ms, size_bytes = values.get("retention_ms", 0), values.get("retention_bytes", 0)
    return Retention(
        retentionTimeInMinutes=rounded_up(time_ms, 60_000),
        retentionSizeInMB=rounded_up(size_bytes, _MIB),
    )


def _write_retention(given: Retention) -> dict[str, object]:
    minutes, mebibytes = given.retentionTimeInMinutes, given.retentionSizeInMB
    if min(minutes, mebibytes) < -1 or (minutes == 0) is not (mebibytes == 0):
        raise Refused(412, "Invalid retention policy: set both values to 0 or neither; -1 is no limit")
    return {
        "retention_ms": minutes * 60_000 if minutes > 0 else minutes,
        "retention_bytes": mebibytes * _MIB if mebibytes > 0 else mebibytes,
    }


def _limit(value: int) -> int:
    """Convert Pulsar's limit to Vela's. Pulsar writes -1 for no limit, and Vela writes 0."""
    return max(0, value)


def _unlimited(value: int) -> int:
    return value or -1


def _dispatch_rate(prefix: str, namespace: str, member: str) -> AdminPolicy:
    messages, size_bytes = f"{prefix}_messages", f"{prefix}_bytes"

    def write(given: DispatchRate) -> dict[str, object]:
        if given.relativeToPublishRate:
            raise Refused(412, "relativeToPublishRate is not supported: give the rate itself")
        if given.ratePeriodInSecond < 1:
            raise Refused(412, f"ratePeriodInSecond is {given.ratePeriodInSecond}: it takes at least 1")
        period_s = given.ratePeriodInSecond
        rates = _limit(given.dispatchThrottlingRateInMsg), _limit(given.dispatchThrottlingRateInByte)
        # Vela's rates are per second. Round up, because 0 means no limit.
        return dict(zip((messages, size_bytes), (-(-rate // period_s) for rate in rates), strict=True))

    return AdminPolicy(
        names=(messages, size_bytes),
        body=DispatchRate,
        read=lambda values: DispatchRate(
            dispatchThrottlingRateInMsg=_unlimited(values.get(messages, 0)),
            dispatchThrottlingRateInByte=_unlimited(values.get(size_bytes, 0)),
        ),
        write=write,
        namespace=namespace,
        topic=namespace,
        member=member,
        by_cluster=True,
    )


def _write_auto_topic_creation(given: AutoTopicCreation) -> dict[str, object]:
    is_partitioned = given.topicType == "partitioned"
    if is_partitioned and (given.defaultNumPartitions or 0) < 1:
        raise Refused(400, "defaultNumPartitions of partitioned topics is at least 1")
    if not is_partitioned and (given.defaultNumPartitions or 0) > 0:
        raise Refused(400, "defaultNumPartitions belongs to partitioned topics: leave it out")
    return {
        "auto_create_topics": given.allowAutoTopicCreation,
        "auto_create_partitions": given.defaultNumPartitions if is_partitioned else 0,
    }


def _read_auto_topic_creation(values: Values) -> AutoTopicCreation:
    partitions = values.get("auto_create_partitions", 0)
    return AutoTopicCreation(
        allowAutoTopicCreation=values.get("auto_create_topics", True),
        topicType="partitioned" if partitions else "non-partitioned",
        defaultNumPartitions=partitions or None,
    )


def _write_delayed_delivery(given: DelayedDelivery) -> dict[str, object]:
    if given.tickTime < BUCKET_MS:
        raise Refused(
            412,
            f"tickTime is {given.tickTime}: Vela's delivery times are precise to {BUCKET_MS} ms, so give at least that",
        )
    return {"delayed_delivery": given.active, "max_delay_ms": given.maxDeliveryDelayInMillis}


def _write_strategy(value: str) -> dict[str, object]:
    if value == _UNDEFINED:
        return {"schema_compatibility": None}
    if value not in list(SchemaCompatibility):
        raise Refused(412, f"{value!r} is not a strategy: use one of {', '.join(SchemaCompatibility)}")
    return {"schema_compatibility": value}


POLICIES: Final[tuple[AdminPolicy, ...]] = (
    AdminPolicy(
        names=("retention_ms", "retention_bytes"),
        body=Retention,
        read=_read_retention,
        write=_write_retention,
        namespace="retention",
        topic="retention",
        member="retention_policies",
    ),
    _number(
        "message_ttl_ms",
        namespace="messageTTL",
        topic="messageTTL",
        unit=1000,
        member="message_ttl_in_seconds",
    ),
    _flag(
        "deduplication",
        namespace="deduplication",
        topic="deduplicationEnabled",
        member="deduplicationEnabled",
    ),
    _dispatch_rate("dispatch_rate", "dispatchRate", "topicDispatchRate"),
    _dispatch_rate("subscription_dispatch_rate", "subscriptionDispatchRate", "subscriptionDispatchRate"),
    AdminPolicy(
        names=("publish_rate_messages", "publish_rate_bytes"),
        body=PublishRate,
        read=lambda values: PublishRate(
            publishThrottlingRateInMsg=_unlimited(values.get("publish_rate_messages", 0)),
            publishThrottlingRateInByte=_unlimited(values.get("publish_rate_bytes", 0)),
        ),
        write=lambda given: {
            "publish_rate_messages": _limit(given.publishThrottlingRateInMsg),
            "publish_rate_bytes": _limit(given.publishThrottlingRateInByte),
        },
        namespace="publishRate",
        topic="publishRate",
        member="publishMaxMessageRate",
        by_cluster=True,
    ),
    AdminPolicy(
        names=("auto_create_topics", "auto_create_partitions"),
        body=AutoTopicCreation,
        read=_read_auto_topic_creation,
        write=_write_auto_topic_creation,
        namespace="autoTopicCreation",
        member="autoTopicCreationOverride",
    ),
    AdminPolicy(
        names=("auto_create_subscriptions",),
        body=AutoSubscriptionCreation,
        read=lambda values: AutoSubscriptionCreation(
            allowAutoSubscriptionCreation=values["auto_create_subscriptions"]
        ),
        write=lambda given: {"auto_create_subscriptions": given.allowAutoSubscriptionCreation},
        namespace="autoSubscriptionCreation",
        topic="autoSubscriptionCreation",
        member="autoSubscriptionCreationOverride",
    ),
    AdminPolicy(
        names=("delayed_delivery", "max_delay_ms"),
        body=DelayedDelivery,
        read=lambda values: DelayedDelivery(
            active=values.get("delayed_delivery", True),
            maxDeliveryDelayInMillis=values.get("max_delay_ms", 0),
        ),
        write=_write_delayed_delivery,
        namespace="delayedDelivery",
        topic="delayedDelivery",
        member="delayed_delivery_policies",
    ),
    AdminPolicy(
        names=("delete_inactive_topics", "inactive_topic_ms", "inactive_topic_mode"),
        body=InactiveTopics,
        read=lambda values: InactiveTopics(
            inactiveTopicDeleteMode=values.get("inactive_topic_mode", "delete_when_no_subscriptions"),
            maxInactiveDurationSeconds=rounded_up(values.get("inactive_topic_ms", 60_000), 1000),
            deleteWhileInactive=values.get("delete_inactive_topics", False),
        ),
        write=lambda given: {
            "delete_inactive_topics": given.deleteWhileInactive,
            "inactive_topic_ms": given.maxInactiveDurationSeconds * 1000,
            "inactive_topic_mode": given.inactiveTopicDeleteMode,
        },
        namespace="inactiveTopicPolicies",
        topic="inactiveTopicPolicies",
        member="inactive_topic_policies",
    ),
    _number(
        "subscription_expiry_ms",
        namespace="subscriptionExpirationTime",
        unit=60_000,
        member="subscription_expiration_time_minutes",
    ),
    _number(
        "max_producers",
        namespace="maxProducersPerTopic",
        topic="maxProducers",
        member="max_producers_per_topic",
    ),
    _number(
        "max_consumers",
        namespace="maxConsumersPerTopic",
        topic="maxConsumers",
        member="max_consumers_per_topic",
    ),
    _number(
        "max_consumers_per_subscription",
        namespace="maxConsumersPerSubscription",
        topic="maxConsumersPerSubscription",
        member="max_consumers_per_subscription",
    ),
    _number(
        "max_unacked_per_consumer",
        namespace="maxUnackedMessagesPerConsumer",
        topic="maxUnackedMessagesOnConsumer",
        member="max_unacked_messages_per_consumer",
    ),
    _number(
        "max_unacked_per_subscription",
        namespace="maxUnackedMessagesPerSubscription",
        topic="maxUnackedMessagesOnSubscription",
        member="max_unacked_messages_per_subscription",
    ),
    _number(
        "max_subscriptions",
        namespace="maxSubscriptionsPerTopic",
        topic="maxSubscriptionsPerTopic",
        member="max_subscriptions_per_topic",
    ),
    _number("max_message_bytes", topic="maxMessageSize"),
    _number(
        "compaction_threshold_bytes",
        namespace="compactionThreshold",
        topic="compactionThreshold",
        namespace_verb="PUT",
        member="compaction_threshold",
    ),
    _flag(
        "schema_validation_enforced",
        namespace="schemaValidationEnforced",
        topic="schemaValidationEnforced",
        member="schema_validation_enforced",
        unset=False,  # Java's admin client expects a boolean, not an empty answer.
    ),
    AdminPolicy(
        names=("schema_compatibility",),
        body=str,
        read=lambda values: values["schema_compatibility"],
        write=_write_strategy,
        namespace="schemaCompatibilityStrategy",
        topic="schemaCompatibilityStrategy",
        namespace_verb="PUT",
        topic_verb="PUT",
        member="schema_compatibility_strategy",
        unset=_UNDEFINED,  # Java's and Go's admin clients cannot read an empty answer.
    ),
)


def completed(document: Values, in_force: Values) -> Values:
    """If `document` sets a policy of Pulsar only in part, add the rest from `in_force`.

    For example, if the document sets only the size of the retention, add the time from `in_force`.
    """
    found = dict(document)
    for policy in POLICIES:
        if any(name in document for name in policy.names):
            found |= {name: in_force[name] for name in policy.names if name not in document}
    if "backlog_quota_bytes" in document or "backlog_quota_ms" in document:
        found.setdefault("backlog_quota_policy", in_force["backlog_quota_policy"])
    return found
