"""Sentences that explain policies to people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.core.policies.policies import FIELDS, BacklogQuotaPolicy, Policies

__all__ = ["SENTENCE_TEXTS", "in_words", "kept"]

_OVER_QUOTA: Final = {
    BacklogQuotaPolicy.PRODUCER_REQUEST_HOLD: "producers have to wait",
    BacklogQuotaPolicy.PRODUCER_EXCEPTION: "producers get an error",
    BacklogQuotaPolicy.CONSUMER_BACKLOG_EVICTION: "the slowest subscription loses its oldest messages",
}
_TEXTS: Final[Mapping[str, str]] = {
    "acked": "messages that every subscription has acked are {kept}",
    "protected": "every act on this namespace and its topics needs a reason",
    "second person": "one user plans each act on this namespace and its topics, and another user applies it",
    "not kept": "not kept",
    "for ever": "kept for ever",
    "for a time": "kept {limit}",
    "up to a size": "kept up to {limit}",
    "the less": "kept {length} or {size}, whichever is less",
    "no expiry": "messages that are not acked never expire",
    "expiry": "messages that are not acked within {length} expire and are not delivered",
    "larger": "larger than {size}",
    "older": "older than {length}",
    "either": "larger than {size} or older than {length}",
    "no quota": "a backlog may grow without limit",
    "quota": "if a backlog is {limits}, {consequence}",
}
SENTENCE_TEXTS: Final = (*_TEXTS.values(), *_OVER_QUOTA.values())
"""All texts that need translation."""

_Say = Callable[[str], str]


def in_words(policies: Policies, say: _Say = str) -> tuple[str, ...]:
    """Return sentences that explain the policies. `say` translates a text."""
    sentences = [
        say(_TEXTS["acked"]).format(kept=kept(policies, say)),
        _expiry(policies, say),
        _quota(policies, say),
    ]
    if policies.protected:
        sentences.append(say(_TEXTS["protected"]))
    if policies.second_person:
        sentences.append(say(_TEXTS["second person"]))
    return tuple(sentences)


def kept(policies: Policies, say: _Say = str) -> str:
    """Return a phrase that says how long acked messages are kept."""
    if not policies.retention_ms or not policies.retention_bytes:
        return say(_TEXTS["not kept"])
    length = FIELDS["retention_ms"].words(policies.retention_ms)
    size = FIELDS["retention_bytes"].words(policies.retention_bytes)
    match policies.retention_ms > 0, policies.retention_bytes > 0:
        case False, False:
            return say(_TEXTS["for ever"])
        case True, False:
            return say(_TEXTS["for a time"]).format(limit=length)
        case False, True:
            return say(_TEXTS["up to a size"]).format(limit=size)
    return say(_TEXTS["the less"]).format(length=length, size=size)


def _expiry(policies: Policies, say: _Say) -> str:
    if not policies.message_ttl_ms:
        return say(_TEXTS["no expiry"])
    return say(_TEXTS["expiry"]).format(length=FIELDS["message_ttl_ms"].words(policies.message_ttl_ms))


def _quota(policies: Policies, say: _Say) -> str:
    size = FIELDS["backlog_quota_bytes"].words(policies.backlog_quota_bytes)
    length = FIELDS["backlog_quota_ms"].words(policies.backlog_quota_ms)
    match policies.backlog_quota_bytes >= 0, policies.backlog_quota_ms >= 0:
        case False, False:
            return say(_TEXTS["no quota"])
        case True, False:
            limits = "larger"
        case False, True:
            limits = "older"
        case _:
            limits = "either"
    return say(_TEXTS["quota"]).format(
        limits=say(_TEXTS[limits]).format(size=size, length=length),
        consequence=say(_OVER_QUOTA[policies.backlog_quota_policy]),
    )
