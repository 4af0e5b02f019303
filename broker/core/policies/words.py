"""What the policies in force mean for messages, in sentences."""

from __future__ import annotations

from typing import Final

from broker.core.policies.policies import FIELDS, BacklogQuotaPolicy, Policies

__all__ = ["in_words", "kept"]

_OVER_QUOTA: Final = {
    BacklogQuotaPolicy.PRODUCER_REQUEST_HOLD: "producers have to wait",
    BacklogQuotaPolicy.PRODUCER_EXCEPTION: "producers get an error",
    BacklogQuotaPolicy.CONSUMER_BACKLOG_EVICTION: "the slowest subscription loses its oldest messages",
}


def in_words(policies: Policies) -> tuple[str, ...]:
    """Return how long messages stay, and what an operator must know before acting."""
    sentences = [
        f"messages that every subscription has acked are {kept(policies)}",
        _expiry(policies),
        _quota(policies),
    ]
    if policies.protected:
        sentences.append("every act on this namespace and its topics needs a reason")
    return tuple(sentences)


def kept(policies: Policies) -> str:
    """Return how long acked messages are kept: "kept 7 days or 20 GB, whichever is less"."""
    if not policies.retention_ms or not policies.retention_bytes:
        return "not kept"
    limits = [
        FIELDS[name].words(value)
        for name, value in (
            ("retention_ms", policies.retention_ms),
            ("retention_bytes", policies.retention_bytes),
        )
        if value >= 0
    ]
    match limits:
        case []:
            return "kept for ever"
        case [limit]:
            return f"kept {limit}" if policies.retention_ms >= 0 else f"kept up to {limit}"
    return f"kept {' or '.join(limits)}, whichever is less"


def _expiry(policies: Policies) -> str:
    if not policies.message_ttl_ms:
        return "messages that are not acked never expire"
    length = FIELDS["message_ttl_ms"].words(policies.message_ttl_ms)
    return f"messages that are not acked within {length} expire and are not delivered"


def _quota(policies: Policies) -> str:
    limits = []
    if policies.backlog_quota_bytes >= 0:
        limits.append(f"larger than {FIELDS['backlog_quota_bytes'].words(policies.backlog_quota_bytes)}")
    if policies.backlog_quota_ms >= 0:
        limits.append(f"older than {FIELDS['backlog_quota_ms'].words(policies.backlog_quota_ms)}")
    if not limits:
        return "a backlog may grow without limit"
    return f"if a backlog is {' or '.join(limits)}, {_OVER_QUOTA[policies.backlog_quota_policy]}"
