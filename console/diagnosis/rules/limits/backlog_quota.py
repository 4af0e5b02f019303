"""The backlog quota stops producers, or takes messages away, because of a backlog."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 0.0
_EVICTION: Final = "consumer_backlog_eviction"


def find(snapshot: Snapshot) -> Finding | None:
    limits, slowest = snapshot.limits, snapshot.slowest
    evidence = _breach(snapshot)
    if not evidence:
        return None
    mine = snapshot.subscription.name
    whose = "this backlog" if slowest is None or slowest.name == mine else f"the backlog of {slowest.name}"
    if limits.quota_policy == _EVICTION:
        sentence = f"The backlog quota is reached by {whose}: the oldest messages are given up."
    else:
        sentence = f"The backlog quota is reached by {whose}: producers are stopped until it has drained."
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=sentence,
        evidence=(*evidence, fact("backlog_quota_policy", limits.quota_policy)),
        cures=(
            Cure(text="Find out why it does not drain: the other causes on this page.")
            if slowest is None or slowest.name == mine
            else Cure(text=f"Look at {slowest.name}", topic=snapshot.topic.name),
            Cure(text="Raise the quota: `vela policies set`, backlog_quota_bytes or backlog_quota_ms."),
        ),
    )


def _breach(snapshot: Snapshot) -> tuple[Evidence, ...]:
    limits, slowest, first = snapshot.limits, snapshot.slowest, snapshot.cursor.first
    backlog_bytes = max(snapshot.subscription.backlog_bytes, slowest.backlog_bytes if slowest else 0)
    if 0 <= limits.quota_bytes < backlog_bytes:
        return (
            fact("largest backlog", backlog_bytes, Unit.BYTES),
            fact("backlog_quota_bytes", limits.quota_bytes, Unit.BYTES),
        )
    if limits.quota_ms >= 0 and first is not None:
        age_s = snapshot.seconds_since(first.appended_ms)
        if age_s * 1000 > limits.quota_ms:
            return (
                fact("oldest message", first.appended_ms, Unit.TIME),
                fact("backlog_quota_ms", limits.quota_ms / 1000, Unit.SECONDS),
            )
    return ()


RULE: Final = Rule(id="backlog_quota", window_s=WINDOW_S, find=find)
