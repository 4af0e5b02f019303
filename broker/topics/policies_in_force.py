"""Computes the policies in force on a topic from the settings, the namespace's document and the topic's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.core.ledgers.rollover import RolloverPolicy
from broker.core.policies import Policies, PolicyLevel, merged, valid_part

if TYPE_CHECKING:
    from broker.conf import BrokerSettings

__all__ = ["default_policies", "effective_policies", "rollover_policy"]

logger = logging.getLogger(__name__)


def default_policies(settings: BrokerSettings) -> Policies:
    """Return the policies in force where no document sets any."""
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
    """Merge stored documents. Log and ignore invalid values, which only a manual change of the table can cause."""
    usable, complaints = valid_part(namespace, PolicyLevel.NAMESPACE)
    usable_of_topic, of_topic = valid_part(topic, PolicyLevel.TOPIC)
    for complaint in (*complaints, *of_topic):
        logger.error("%s: %s; it is left out", where, complaint)
    return merged(default_policies(settings), usable, usable_of_topic)


def rollover_policy(policies: Policies) -> RolloverPolicy:
    """Return the limits at which an open ledger is full."""
    return RolloverPolicy(
        max_entries=policies.ledger_max_entries,
        max_bytes=policies.ledger_max_bytes,
        min_age_ms=policies.ledger_min_age_ms,
        max_age_ms=policies.ledger_max_age_ms,
    )
