"""Policies of namespaces and topics, and the checks of their JSON documents.

A document contains only the policies that are set. A namespace's document overrides the broker's defaults, and a
topic's document overrides both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from broker.core.policies.fields import (
    MOST,
    PolicyField,
    PolicyInvalid,
    PolicyLevel,
    PolicyUnit,
    PolicyValue,
)
from broker.core.topic_name import MOST_PARTITIONS

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "FIELDS",
    "BacklogQuotaPolicy",
    "DeliveryStoryMode",
    "InactiveTopicMode",
    "Policies",
    "SchemaCompatibility",
    "checked",
    "merged",
    "valid_part",
]

T = TypeVar("T")

_MIB: Final = 1024 * 1024


class BacklogQuotaPolicy(StrEnum):
    """The consequence of a backlog above its quota."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class InactiveTopicMode(StrEnum):
    """The condition for a topic without clients to count as inactive."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    SUBSCRIPTIONS_CAUGHT_UP = "delete_when_subscriptions_caught_up"


class DeliveryStoryMode(StrEnum):
    """The deliveries and acks that the broker records."""

    OFF = "off"
    REDELIVERED = "redelivered"
    ALL = "all"


class SchemaCompatibility(StrEnum):
    """Rules for the next schema of a topic. The names are Pulsar's."""

    UNDEFINED = "UNDEFINED"  # Same as FULL
    AUTO_UPDATE_DISABLED = "AUTO_UPDATE_DISABLED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


_POLICY: Final = "policy"
_EVERYWHERE: Final = frozenset(PolicyLevel)
_NAMESPACE_ONLY: Final = frozenset({PolicyLevel.NAMESPACE})
_NO_LIMIT: Final = {0: "no limit"}
_SETTING: Final = "the broker's setting"


def _described(
    says: str,
    *,
    unit: PolicyUnit = PolicyUnit.COUNT,
    least: int = 0,
    most: int = MOST,
    named: Mapping[int, str] = MappingProxyType({}),
    levels: frozenset[PolicyLevel] = _EVERYWHERE,
) -> dict[str, object]:
    return {
        _POLICY: {
            "says": says,
            "unit": unit,
            "least": least,
            "most": most,
            "named": named,
            "levels": levels,
        }
    }


def _policy(default: T, says: str, **described: Any) -> T:
    made: T = field(default=default, metadata=_described(says, **described))
    return made


def _length(default: int, says: str, named: Mapping[int, str], *, least: int = 0) -> int:
    return _policy(default, says, unit=PolicyUnit.LENGTH, least=least, named=named)


def _size(default: int, says: str, named: Mapping[int, str], *, least: int = 0) -> int:
    return _policy(default, says, unit=PolicyUnit.SIZE, least=least, named=named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies in force on one topic. Rates are per second."""

    # Lifetime of data
    retention_ms: int = _length(
        24 * 3600 * 1000,
        "how long to keep messages that all subscriptions have acked",
        {-1: "infinite", 0: "not at all"},
        least=-1,
    )
    retention_bytes: int = _size(
        1024 * _MIB,
        "keep acked messages while the topic is smaller than this",
        {-1: "infinite", 0: "nothing"},
        least=-1,
    )
    message_ttl_ms: int = _length(
        0, "the broker acks a message that is not acked after this time", {0: "never"}
    )
    backlog_quota_bytes: int = _size(
        -1, "limit on the backlog of the slowest subscription", {-1: "no limit"}, least=-1
    )
    backlog_quota_ms: int = _length(
        -1,
        "limit on the age of the oldest message that a subscription has not acked",
        {-1: "no limit"},
        least=-1,
    )
    backlog_quota_policy: BacklogQuotaPolicy = field(
        default=BacklogQuotaPolicy.PRODUCER_REQUEST_HOLD,
        metadata=_described(
            "what happens above a backlog quota: producers wait, producers get an error, or the slowest subscription"
            " loses its oldest messages"
        ),
    )
    subscription_expiry_ms: int = _length(
        0, "the broker deletes a subscription that has had no consumers for this time", {0: "never"}
    )
    delete_inactive_topics: bool = _policy(False, "whether the broker deletes a topic that nobody uses")
    inactive_topic_ms: int = _length(
        60_000, "how long a topic must be without clients to count as unused", {}, least=1
    )
    inactive_topic_mode: InactiveTopicMode = field(
        default=InactiveTopicMode.NO_SUBSCRIPTIONS,
        metadata=_described("which unused topics may be deleted"),
    )
    ledger_max_entries: int = _policy(50_000, "a ledger that has this many entries is sealed", least=1)
    ledger_max_bytes: int = _size(2048 * _MIB, "a ledger of this size is sealed", {}, least=1)
    ledger_max_age_ms: int = _length(14_400_000, "a ledger of this age is sealed", {}, least=1)
    ledger_min_age_ms: int = _length(
        600_000, "no younger ledger is sealed for its entries, its size or its age", {}
    )
    compaction_threshold_bytes: int = _size(
        0, "the broker compacts a topic when this much was published since its last compaction", {0: "never"}
    )
    offload_after_ms: int = _length(
        -1,
        "sealed ledgers whose youngest message is older than this move to files",
        {-1: "never"},
        least=-1,
    )
    offload_threshold_bytes: int = _size(
        -1, "the oldest sealed ledgers beyond this size move to files", {-1: "never"}, least=-1
    )
    # Delivery
    delayed_delivery: bool = _policy(True, "false: delivery times are ignored")
    delayed_strict: bool = _policy(True, "true: never early. false: up to a tick early")
    max_delay_ms: int = _length(0, "the longest delay that a message may ask for", {0: "no limit"})
    dispatch_rate_messages: int = _policy(
        0, "most messages delivered a second, over all subscriptions", named=_NO_LIMIT
    )
    dispatch_rate_bytes: int = _size(0, "most bytes delivered a second, over all subscriptions", _NO_LIMIT)
    subscription_dispatch_rate_messages: int = _policy(
        0, "most messages delivered a second by each subscription", named=_NO_LIMIT
    )
    subscription_dispatch_rate_bytes: int = _size(
        0, "most bytes delivered a second by each subscription", _NO_LIMIT
    )
    max_unacked_per_consumer: int = _policy(
        -1,
        "most messages delivered to a consumer and not acked",
        least=-1,
        named={-1: _SETTING, 0: "no limit"},
    )
    max_unacked_per_subscription: int = _policy(
        -1,
        "most messages delivered by a subscription and not acked",
        least=-1,
        named={-1: _SETTING, 0: "no limit"},
    )
    delivery_story: DeliveryStoryMode = field(
        default=DeliveryStoryMode.REDELIVERED,
        metadata=_described(
            "which deliveries and acks the page of a message shows: none, only those of messages that came back, or"
            " all"
        ),
    )
    delivery_story_ms: int = _length(
        24 * 3600 * 1000, "how long the broker keeps the record of deliveries and acks", {}, least=1
    )
    # Producers
    deduplication: bool = _policy(
        False, "whether a message is stored once for each producer name and sequence id"
    )
    max_message_bytes: int = _size(0, "largest payload of one entry, except chunks", {0: _SETTING})
    publish_rate_messages: int = _policy(0, "most messages stored a second", named=_NO_LIMIT)
    publish_rate_bytes: int = _size(0, "most bytes stored a second", _NO_LIMIT)
    schema_compatibility: SchemaCompatibility = field(
        default=SchemaCompatibility.FULL,
        metadata=_described("which schema may follow which one"),
    )
    schema_validation_enforced: bool = _policy(
        False, "true: a producer without a schema is refused on a topic that has one"
    )
    # Limits and automatic creation
    max_producers: int = _policy(0, "most producers of a topic", named=_NO_LIMIT)
    max_consumers: int = _policy(0, "most consumers of a topic, over its subscriptions", named=_NO_LIMIT)
    max_consumers_per_subscription: int = _policy(0, "most consumers of one subscription", named=_NO_LIMIT)
    max_subscriptions: int = _policy(0, "most durable subscriptions of a topic", named=_NO_LIMIT)
    auto_create_subscriptions: bool = _policy(True, "false: subscribing does not create a subscription")
    auto_create_topics: bool = _policy(
        True, "false: connecting does not create a topic", levels=_NAMESPACE_ONLY
    )
    auto_create_partitions: int = _policy(
        0,
        "partitions of a topic that connecting creates",
        most=MOST_PARTITIONS,
        named={0: "not partitioned"},
        levels=_NAMESPACE_ONLY,
    )
    # Operators
    protected: bool = _policy(
        False, "true: every act on the namespace and its topics needs a reason", levels=_NAMESPACE_ONLY
    )
    second_person: bool = _policy(
        False,
        "true: one user plans each act on the namespace and its topics, and another user applies it",
        levels=_NAMESPACE_ONLY,
    )


_KINDS: Final[dict[str, type[bool | int | StrEnum]]] = {
    "bool": bool,
    "int": int,
    "BacklogQuotaPolicy": BacklogQuotaPolicy,
    "DeliveryStoryMode": DeliveryStoryMode,
    "InactiveTopicMode": InactiveTopicMode,
    "SchemaCompatibility": SchemaCompatibility,
}

FIELDS: Final[dict[str, PolicyField]] = {
    each.name: PolicyField(name=each.name, kind=_KINDS[str(each.type)], **each.metadata[_POLICY])
    for each in fields(Policies)
}


def checked(document: Mapping[str, object], level: PolicyLevel) -> dict[str, PolicyValue]:
    """Return the checked policies of a document. Raises PolicyInvalid for the first bad policy."""
    return {name: _field(name, level).check(value) for name, value in document.items()}


def valid_part(
    document: Mapping[str, object], level: PolicyLevel
) -> tuple[dict[str, PolicyValue], list[str]]:
    """Return the valid policies of a stored document, and an error message for each bad policy.

    A bad policy must not prevent the broker from loading a topic.
    """
    usable: dict[str, PolicyValue] = {}
    complaints: list[str] = []
    for name, value in document.items():
        try:
            usable[name] = _field(name, level).check(value)
        except PolicyInvalid as error:
            complaints.append(str(error))
    return usable, complaints


def merged(base: Policies, *documents: Mapping[str, PolicyValue]) -> Policies:
    """Return `base`, overridden by the policies of checked documents. Later documents override earlier ones."""
    values: dict[str, Any] = {}
    for document in documents:
        values.update(document)
    for name, value in values.items():
        kind = FIELDS[name].kind
        if issubclass(kind, StrEnum):
            values[name] = kind(value)
    return replace(base, **values)


def _field(name: str, level: PolicyLevel) -> PolicyField:
    found = FIELDS.get(name)
    if found is None:
        raise PolicyInvalid(f"there is no policy {name!r}: use one of {', '.join(FIELDS)}")
    if level not in found.levels:
        raise PolicyInvalid(f"policy {name} is set on a {', '.join(found.levels)}, not on a {level}")
    return found
