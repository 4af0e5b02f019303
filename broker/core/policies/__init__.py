"""The policies that an operator may set on a namespace or a topic."""

from __future__ import annotations

from broker.core.policies.fields import (
    MOST,
    PolicyField,
    PolicyInvalid,
    PolicyLevel,
    PolicyUnit,
    PolicyValue,
)
from broker.core.policies.policies import (
    FIELDS,
    BacklogQuotaPolicy,
    DeliveryStoryMode,
    InactiveTopicMode,
    Policies,
    SchemaCompatibility,
    checked,
    merged,
    valid_part,
)
from broker.core.policies.words import SENTENCE_TEXTS, in_words, kept

__all__ = [
    "FIELDS",
    "MOST",
    "SENTENCE_TEXTS",
    "BacklogQuotaPolicy",
    "DeliveryStoryMode",
    "InactiveTopicMode",
    "Policies",
    "PolicyField",
    "PolicyInvalid",
    "PolicyLevel",
    "PolicyUnit",
    "PolicyValue",
    "SchemaCompatibility",
    "checked",
    "in_words",
    "kept",
    "merged",
    "valid_part",
]
