"""Report that a backlog has reached the backlog quota."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE", "sentence_of"]

WINDOW_S: Final = 0.0
_EVICTION: Final = "consumer_backlog_eviction"


def find(snapshot: Snapshot) -> Finding | None:
    policy, mine = snapshot.limits.quota_policy, snapshot.subscription.name
    breach = _breach(snapshot)
    if breach is None:
        return None
    name, evidence = breach
    whose = said("This backlog") if name == mine else said("The backlog of {name}", name=name)
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=sentence_of(policy, whose),
        evidence=(*evidence, fact("backlog_quota_policy", policy)),
        cures=(
            Cure(text=said("Find out why it does not drain: see the other causes on this page."))
            if name == mine
            else Cure(text=said("Look at {name}", name=name), topic=snapshot.topic.name),
            Cure(text=said("Raise the quota: `vela policies set`, backlog_quota_bytes or backlog_quota_ms.")),
        ),
    )


def sentence_of(policy: str, whose: str) -> str:
    """Return a sentence that says what the broker does when a backlog reaches the quota."""
    if policy == _EVICTION:
        return said(
            "{whose} has reached the backlog quota: the broker gives up its oldest messages.", whose=whose
        )
    return said(
        "{whose} has reached the backlog quota: producers are stopped until it has drained.", whose=whose
    )


def _breach(snapshot: Snapshot) -> tuple[str, tuple[Evidence, ...]] | None:
    limits, subscription, first = snapshot.limits, snapshot.subscription, snapshot.cursor.first
    name, backlog_bytes = subscription.name, subscription.backlog_bytes
    if snapshot.slowest is not None and snapshot.slowest.backlog_bytes > backlog_bytes:
        name, backlog_bytes = snapshot.slowest.name, snapshot.slowest.backlog_bytes
    if 0 <= limits.quota_bytes < backlog_bytes:
        return name, (
            fact(said("largest backlog"), backlog_bytes, Unit.BYTES),
            fact("backlog_quota_bytes", limits.quota_bytes, Unit.BYTES),
        )
    if limits.quota_ms >= 0 and first is not None:
        age_s = snapshot.seconds_since(first.appended_ms)
        if age_s * 1000 > limits.quota_ms:
            return subscription.name, (
                fact(said("oldest message"), first.appended_ms, Unit.TIME),
                fact("backlog_quota_ms", limits.quota_ms / 1000, Unit.SECONDS),
            )
    return None


RULE: Final = Rule(id="backlog_quota", window_s=WINDOW_S, find=find)
