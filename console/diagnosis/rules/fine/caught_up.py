"""Report that no message waits."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    if subscription.backlog_messages:
        return None
    evidence = [fact(said("last message published"), snapshot.topic.last_append_ms or 0, Unit.TIME)]
    if subscription.consumers is not None:
        evidence.append(fact(said("connected"), subscription.consumers, Unit.CONSUMERS))
    return Finding(
        rule=RULE.id,
        severity=Severity.FINE,
        sentence=said("No message waits: every stored one is acked."),
        evidence=tuple(evidence),
    )


RULE: Final = Rule(id="caught_up", window_s=WINDOW_S, find=find)
