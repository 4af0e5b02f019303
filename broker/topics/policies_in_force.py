"""Compute policies from the broker's settings and the policy documents of a namespace and a topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from broker.core.ledgers.rollover import RolloverPolicy
from broker.core.policies import (
    FIELDS,
    SENTENCE_TEXTS,
    Policies,
    PolicyField,
    PolicyInvalid,
    PolicyLevel,
    PolicyValue,
    in_words,
    merged,
    valid_part,
)

if TYPE_CHECKING:
    from broker.conf import BrokerSettings

__all__ = [
    "DescribedPolicies",
    "PolicyInForce",
    "default_policies",
    "described_policies",
    "effective_policies",
    "policy_texts",
    "rollover_policy",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """A policy in force on one level. A level is a namespace or a topic."""

    field: PolicyField
    value: PolicyValue
    set_on: PolicyLevel | None  # None for the broker's default
    own: PolicyValue | None  # None if no value is set on this level
    above: PolicyValue  # The inherited value
    can_be_set: bool

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def words(self) -> str:
        """The value as people write it."""
        return self.field.words(self.value)

    @property
    def above_words(self) -> str:
        """The inherited value as people write it."""
        return self.field.words(self.above)

    @property
    def own_words(self) -> str:
        """The value set on this level, as people write it. Empty if no value is set."""
        return "" if self.own is None else self.field.words(self.own)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, or an empty tuple if an operator types the value."""
        if self.field.kind is bool:
            return ("true", "false")
        return tuple(self.field.kind) if issubclass(self.field.kind, StrEnum) else ()

    def complaint(self, text: str) -> str:
        """Return an empty text if the policy accepts `text`, or else a sentence that names the accepted values."""
        try:
            self.field.parse(text)
        except PolicyInvalid:
            return f"{text!r} is not a value of this policy: it takes {self.field.takes}."
        return ""

    def is_own(self, text: str) -> bool:
        """Return whether this text stands for the value that is set on this level."""
        return self.own is not None and self.field.parse(text) == self.own


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPolicies:
    """All policies in force on a namespace or a topic."""

    sentences: tuple[str, ...]
    policies: tuple[PolicyInForce, ...]


def described_policies(
    settings: BrokerSettings,
    namespace: Mapping[str, object],
    topic: Mapping[str, object] | None,
    *,
    where: str,
    say: Callable[[str], str] = str,
) -> DescribedPolicies:
    """Describe the policies that the stored documents put in force.

    `topic` is None for a namespace. `say` translates a text.
    """
    level = PolicyLevel.NAMESPACE if topic is None else PolicyLevel.TOPIC
    above = default_policies(settings)
    if topic is not None:
        above = effective_policies(settings, namespace, {}, where=where)
    in_force = effective_policies(settings, namespace, topic or {}, where=where)
    own, _ = valid_part(namespace if topic is None else topic, level)
    inherited, _ = valid_part(namespace, PolicyLevel.NAMESPACE)
    values, values_above = asdict(in_force), asdict(above)
    return DescribedPolicies(
        sentences=in_words(in_force, say),
        policies=tuple(
            PolicyInForce(
                field=field,
                value=values[name],
                set_on=level if name in own else PolicyLevel.NAMESPACE if name in inherited else None,
                own=own.get(name),
                above=values_above[name],
                can_be_set=level in field.levels,
            )
            for name, field in FIELDS.items()
        ),
    )


def policy_texts() -> tuple[str, ...]:
    """Return all texts that describe policies."""
    return (*(field.says for field in FIELDS.values()), *SENTENCE_TEXTS)


def default_policies(settings: BrokerSettings) -> Policies:
    """Return the default policies from the broker's settings."""
    return Policies(
        retention_ms=settings.default_retention_ms,
        retention_bytes=settings.default_retention_bytes,
        ledger_max_entries=settings.ledger_max_entries,
        ledger_max_bytes=settings.ledger_max_bytes,
        ledger_max_age_ms=settings.ledger_max_age_ms,
        ledger_min_age_ms=settings.ledger_min_age_ms,
        auto_create_topics=settings.auto_create_topics,
    )


def effective_policies(
    settings: BrokerSettings,
    namespace: Mapping[str, object],
    topic: Mapping[str, object],
    *,
    where: str,
) -> Policies:
    """Return the default policies, overridden by the stored documents. Log and ignore invalid values."""
    usable, complaints = valid_part(namespace, PolicyLevel.NAMESPACE)
    usable_of_topic, of_topic = valid_part(topic, PolicyLevel.TOPIC)
    for complaint in (*complaints, *of_topic):
        logger.error("%s: %s; the value is ignored", where, complaint)
    return merged(default_policies(settings), usable, usable_of_topic)


def rollover_policy(policies: Policies) -> RolloverPolicy:
    """Return the limits for ledger rollover."""
    return RolloverPolicy(
        max_entries=policies.ledger_max_entries,
        max_bytes=policies.ledger_max_bytes,
        min_age_ms=policies.ledger_min_age_ms,
        max_age_ms=policies.ledger_max_age_ms,
    )
