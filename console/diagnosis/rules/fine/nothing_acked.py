"""Report that messages are in flight and nothing is acked."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.rules.fine.just_delivered import WINDOW_S
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]


def find(snapshot: Snapshot) -> Finding | None:
    subscription, consumers = snapshot.subscription, snapshot.consumers
    if not consumers or not subscription.in_flight_messages or snapshot.consumers_ack:
        return None
    most = max(consumers, key=lambda each: each.unacked_messages)
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said("Messages are delivered, and nothing is acked."),
        evidence=(
            fact(said("in flight"), subscription.in_flight_messages, Unit.MESSAGES),
            fact(said("at {name}", name=most.name), most.unacked_messages, Unit.MESSAGES),
            fact(said("last delivery"), max(each.last_delivery_ms for each in consumers), Unit.TIME),
            fact(said("last ack"), max(each.last_ack_ms for each in consumers), Unit.TIME),
        ),
        cures=(
            Cure(
                text=said(
                    "Check whether the application acks each message that it has processed, and whether processing"
                    " fails or hangs."
                )
            ),
            Cure(text=said("Look at what is in flight"), block="pending"),
            Cure(text=said("Look at the consumers"), block="consumers"),
        ),
    )


RULE: Final = Rule(id="nothing_acked", window_s=WINDOW_S, find=find)
