"""Report that an operator has paused the subscription."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    pause = snapshot.subscription.pause
    if pause is None:
        return None
    if pause.who:
        sentence = said(
            "{who} paused the subscription: nothing is delivered until it is resumed. Consumers can still"
            " ack.",
            who=pause.who,
        )
    else:
        sentence = said(
            "An operator paused the subscription: nothing is delivered until it is resumed. Consumers can"
            " still ack."
        )
    evidence = [fact(said("paused by"), pause.who), fact(said("paused"), pause.at_ms, Unit.TIME)]
    if pause.reason:
        evidence.append(fact(said("reason"), pause.reason))
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=tuple(evidence),
        cures=(Cure(text=said("Resume"), act="resume"),),
    )


RULE: Final = Rule(id="paused", window_s=WINDOW_S, find=find)
