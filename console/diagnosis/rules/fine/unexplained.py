"""Report that messages wait, that nothing is acked, and that no other rule explains why."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.rules.fine.just_delivered import WINDOW_S
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said("Messages wait and nothing is acked. None of the known causes applies."),
        evidence=(
            fact(said("waiting"), subscription.backlog_messages, Unit.MESSAGES),
            fact(said("in flight"), subscription.in_flight_messages or 0, Unit.MESSAGES),
            fact(said("connected"), len(snapshot.consumers), Unit.CONSUMERS),
        ),
        cures=(
            Cure(text=said("Look at the consumers"), block="consumers"),
            Cure(text=said("Look at what is in flight"), block="pending"),
        ),
    )


RULE: Final = Rule(id="unexplained", window_s=WINDOW_S, find=find)
