"""Decide when unused subscriptions and topics expire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.core.policies import InactiveTopicMode, Policies

__all__ = ["Use", "is_expired", "is_inactive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a subscription is used."""

    consumers: int
    last_used_ms: int  # Time when the last consumer left
    backlog_messages: int


def is_expired(use: Use, policies: Policies, now_ms: int) -> bool:
    """Return whether a subscription has had no consumer for longer than `subscription_expiry_ms`."""
    expiry_ms = policies.subscription_expiry_ms
    return expiry_ms > 0 and not use.consumers and now_ms - use.last_used_ms > expiry_ms


def is_inactive(
    subscriptions: Iterable[Use], policies: Policies, *, producers: int, last_used_ms: int, now_ms: int
) -> bool:
    """Return whether a topic may be deleted as inactive.

    `last_used_ms` is the time when the last client left or the last message arrived, whichever is later.
    """
    if not policies.delete_inactive_topics or producers:
        return False
    uses = list(subscriptions)
    if any(use.consumers for use in uses):
        return False
    if policies.inactive_topic_mode is InactiveTopicMode.NO_SUBSCRIPTIONS and uses:
        return False
    if any(use.backlog_messages for use in uses):
        return False
    latest_ms = max((use.last_used_ms for use in uses), default=last_used_ms)
    return now_ms - max(last_used_ms, latest_ms) > policies.inactive_topic_ms
