"""Find a subscription about which the broker has sent no report."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    if subscription.consumers is not None or not subscription.backlog_messages:
        return None
    if snapshot.consumers:
        return Finding(
            rule=RULE.id,
            severity=Severity.FINE,
            sentence=said(
                "A consumer has just connected, and the broker has not reported on this subscription yet."
            ),
            evidence=(fact(said("waiting"), subscription.backlog_messages, Unit.MESSAGES),),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "The broker has not reported on this subscription since it started. Probably no consumer is"
            " connected. A consumer that has just connected appears within seconds."
        ),
        evidence=(
            fact(said("waiting"), subscription.backlog_messages, Unit.MESSAGES),
            fact(said("subscription created"), subscription.created_ms, Unit.TIME),
        ),
        cures=(Cure(text=said("Start a consumer.")),),
    )


RULE: Final = Rule(id="unreported", window_s=WINDOW_S, find=find)
