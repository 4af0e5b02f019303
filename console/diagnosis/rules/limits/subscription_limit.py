"""Report that a subscription has reached its limit of unacked messages."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription, limit = snapshot.subscription, snapshot.limits.unacked_per_subscription
    if not subscription.is_blocked or not snapshot.consumers:
        return None
    most = max(snapshot.consumers, key=lambda each: each.unacked_messages)
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "The consumers together have as many unacked messages as the subscription may have ({limit})."
            " The broker sends no new messages until half of them are acked.",
            limit=count(limit),
        ),
        evidence=(
            fact(said("in flight"), subscription.in_flight_messages or 0, Unit.MESSAGES),
            fact(said("limit"), limit, Unit.MESSAGES),
            fact(said("at {name}", name=most.name), most.unacked_messages, Unit.MESSAGES),
            fact(said("its last ack"), most.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(text=said("Look at what is in flight"), block="pending"),
            Cure(
                text=said("Redeliver the messages that {name} has", name=most.name),
                act="redeliver",
                parameters=snapshot.which(most),
            ),
            Cure(
                text=said("Make the consumers ack. The limit is the policy `max_unacked_per_subscription`.")
            ),
        ),
    )


RULE: Final = Rule(id="subscription_limit", window_s=WINDOW_S, find=find)
