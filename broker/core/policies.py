"""The policies that an operator may set on a namespace or a topic, and the checks of their JSON documents.

A document has only the policies that an operator set: `{"message_ttl_ms": 60000}`. The namespace's document overrides
the broker's defaults, and the topic's document overrides both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "FIELDS",
    "BacklogQuotaPolicy",
    "InactiveTopicMode",
    "Policies",
    "PolicyField",
    "PolicyInvalid",
    "PolicyLevel",
    "PolicyValue",
    "SchemaCompatibility",
    "checked",
    "merged",
    "valid_part",
]

PolicyValue = bool | int | str

MOST: Final = 2**53 - 1  # the largest whole number that every JSON reader keeps exact
_MIB: Final = 1024 * 1024


class PolicyInvalid(BrokerError):
    """A policy has an unknown name or a bad value. The message names the policy and says which values it takes."""

    code = "MetadataError"


class PolicyLevel(StrEnum):
    """What a policy document belongs to."""

    NAMESPACE = "namespace"
    TOPIC = "topic"


class BacklogQuotaPolicy(StrEnum):
    """What happens when the slowest subscription's backlog exceeds the quota."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"  # producers wait until the backlog is within the quota
    PRODUCER_EXCEPTION = "producer_exception"  # producers get an error
    CONSUMER_BACKLOG_EVICTION = (
        "consumer_backlog_eviction"  # the slowest subscription loses its oldest messages
    )


class InactiveTopicMode(StrEnum):
    """When a topic without producers and consumers counts as inactive."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    SUBSCRIPTIONS_CAUGHT_UP = "delete_when_subscriptions_caught_up"


class SchemaCompatibility(StrEnum):
    """Which schema may follow which one; the names are Pulsar's."""

    UNDEFINED = "UNDEFINED"  # as FULL
    AUTO_UPDATE_DISABLED = "AUTO_UPDATE_DISABLED"  # the first one stays the only one
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyField:
    """Which values one policy takes, and where it may be set."""

    name: str
    kind: type[bool | int | StrEnum]
    least: int  # lowest value of a number policy; the highest is MOST
    levels: frozenset[PolicyLevel]  # where it may be set

    @property
    def takes(self) -> str:
        """The values that the policy takes, in words, for error messages and help texts."""
        if self.kind is bool:
            return "true or false"
        if issubclass(self.kind, StrEnum):
            return "one of " + ", ".join(self.kind)
        return f"a whole number from {self.least} to {MOST}"

    def check(self, value: object) -> PolicyValue:
        """Return the value as it is stored. Raises PolicyInvalid if the policy does not take it."""
        if self.kind is bool:
            if isinstance(value, bool):
                return value
        elif issubclass(self.kind, StrEnum):
            if isinstance(value, str) and value in list(self.kind):
                return str(value)
        elif isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= MOST:
            return value
        raise PolicyInvalid(f"policy {self.name} is {value!r}: it takes {self.takes}")

    def parse(self, text: str) -> PolicyValue:
        """Return the value for a text from a command line. Raises PolicyInvalid if the policy does not take it."""
        if self.kind is bool:
            return self.check({"true": True, "false": False}.get(text.strip().lower(), text))
        if issubclass(self.kind, StrEnum):
            return self.check(text.strip())
        try:
            return self.check(int(text))
        except ValueError:
            raise PolicyInvalid(f"policy {self.name} is {text!r}: it takes {self.takes}") from None


_LEAST: Final = "least"
_LEVELS: Final = "levels"
_FROM_MINUS_ONE: Final = {_LEAST: -1}
_AT_LEAST_ONE: Final = {_LEAST: 1}
_NAMESPACE_ONLY: Final = {_LEVELS: frozenset({PolicyLevel.NAMESPACE})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies in force on one topic. Sizes are in bytes, times in milliseconds, rates per second."""

    # -- lifetime of data
    # acked data; -1 = for ever, 0 = none
    retention_ms: int = field(default=24 * 3600 * 1000, metadata=_FROM_MINUS_ONE)
    # acked data; -1 = any size, 0 = none
    retention_bytes: int = field(default=1024 * _MIB, metadata=_FROM_MINUS_ONE)
    message_ttl_ms: int = 0  # unacked messages older than this are acked by the broker; 0 = off
    # of the slowest subscription; -1 = off
    backlog_quota_bytes: int = field(default=-1, metadata=_FROM_MINUS_ONE)
    # age of its oldest unacked message; -1 = off
    backlog_quota_ms: int = field(default=-1, metadata=_FROM_MINUS_ONE)
    backlog_quota_policy: BacklogQuotaPolicy = BacklogQuotaPolicy.PRODUCER_REQUEST_HOLD
    subscription_expiry_ms: int = 0  # a subscription unused for this long is deleted; 0 = never
    delete_inactive_topics: bool = False
    inactive_topic_ms: int = field(default=60_000, metadata=_AT_LEAST_ONE)  # without clients for this long
    inactive_topic_mode: InactiveTopicMode = InactiveTopicMode.NO_SUBSCRIPTIONS
    ledger_max_entries: int = field(default=50_000, metadata=_AT_LEAST_ONE)
    ledger_max_bytes: int = field(default=2048 * _MIB, metadata=_AT_LEAST_ONE)
    ledger_max_age_ms: int = field(default=14_400_000, metadata=_AT_LEAST_ONE)
    ledger_min_age_ms: int = 600_000  # no rollover at all before this age
    # -- delivery
    delayed_delivery: bool = True  # false: delivery times are ignored
    delayed_strict: bool = True  # true: never early; false: up to a tick early
    max_delay_ms: int = 0  # longest delay accepted; 0 = any
    dispatch_rate_messages: int = 0  # of the topic; 0 = no limit, here and below
    dispatch_rate_bytes: int = 0
    subscription_dispatch_rate_messages: int = 0  # of each subscription
    subscription_dispatch_rate_bytes: int = 0
    # messages; -1 = the broker's setting
    max_unacked_per_consumer: int = field(default=-1, metadata=_FROM_MINUS_ONE)
    # messages; -1 = the broker's setting
    max_unacked_per_subscription: int = field(default=-1, metadata=_FROM_MINUS_ONE)
    # -- producers
    deduplication: bool = False
    max_message_bytes: int = 0  # 0 = the broker's setting
    publish_rate_messages: int = 0
    publish_rate_bytes: int = 0
    schema_compatibility: SchemaCompatibility = SchemaCompatibility.FULL
    # true: refuse producers without a schema on a topic that has one
    schema_validation_enforced: bool = False
    # -- who may connect, and what a connection creates
    max_producers: int = 0  # of a topic; 0 = no limit, here and below
    max_consumers: int = 0  # of a topic, over its subscriptions
    max_consumers_per_subscription: int = 0
    max_subscriptions: int = 0  # durable ones of a topic
    auto_create_subscriptions: bool = True  # false: subscribing to an unknown one is refused
    auto_create_topics: bool = field(default=True, metadata=_NAMESPACE_ONLY)
    # of a topic created this way; 0 = not partitioned
    auto_create_partitions: int = field(default=0, metadata=_NAMESPACE_ONLY)


_KINDS: Final[dict[str, type[bool | int | StrEnum]]] = {
    "bool": bool,
    "int": int,
    "BacklogQuotaPolicy": BacklogQuotaPolicy,
    "InactiveTopicMode": InactiveTopicMode,
    "SchemaCompatibility": SchemaCompatibility,
}

FIELDS: Final[dict[str, PolicyField]] = {
    each.name: PolicyField(
        name=each.name,
        kind=_KINDS[str(each.type)],
        least=each.metadata.get(_LEAST, 0),
        levels=each.metadata.get(_LEVELS, frozenset(PolicyLevel)),
    )
    for each in fields(Policies)
}


def checked(document: Mapping[str, object], level: PolicyLevel) -> dict[str, PolicyValue]:
    """Check a document before it is stored, and return it. Raises PolicyInvalid for the first bad name or value."""
    return {name: _field(name, level).check(value) for name, value in document.items()}


def valid_part(
    document: Mapping[str, object], level: PolicyLevel
) -> tuple[dict[str, PolicyValue], list[str]]:
    """Return the valid policies of a stored document, and an error message for each bad one.

    Does not raise, so that a topic loads in spite of a bad policy.
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
    """Return `base` changed by each checked document in turn. The last document wins."""
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
