"""An operator has paused the subscription."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    pause = snapshot.subscription.pause
    if pause is None:
        return None
    who = f"{pause.who} paused it" if pause.who else "An operator paused it"
    evidence = [fact("paused by", pause.who), fact("paused", pause.at_ms, Unit.TIME)]
    if pause.reason:
        evidence.append(fact("reason", pause.reason))
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=f"{who}: nothing is delivered until it is resumed. Consumers can still ack.",
        evidence=tuple(evidence),
        cures=(Cure(text="Resume", act="resume"),),
    )


RULE: Final = Rule(id="paused", window_s=WINDOW_S, find=find)
