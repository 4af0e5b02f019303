"""Report that no consumer asks for messages."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 10.0


def find(snapshot: Snapshot) -> Finding | None:
    consumers = snapshot.consumers
    if not snapshot.subscription.backlog_messages or not consumers or snapshot.has_working_state:
        return None
    if any(each.permits > 0 or each.is_blocked for each in consumers):
        return None
    latest = max(consumers, key=lambda each: each.last_sign_ms)
    if snapshot.seconds_since(latest.last_sign_ms) < WINDOW_S:
        return None
    has_asked = any(each.last_flow_ms for each in consumers)
    if not has_asked:
        sentence = said(
            "Consumers are connected and have never asked for a message: their applications do not receive."
        )
    elif len(consumers) == 1:
        sentence = said(
            "{name} asks for no more messages: its queue is full, and its application takes none out.",
            name=latest.name,
        )
    else:
        sentence = said(
            "None of the {consumers} consumers asks for more messages: their queues are full, and their"
            " applications take none out.",
            consumers=len(consumers),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact(said("permits"), sum(each.permits for each in consumers), Unit.MESSAGES),
            fact(said("in flight"), sum(each.unacked_messages for each in consumers), Unit.MESSAGES),
            fact(said("last request for messages"), max(each.last_flow_ms for each in consumers), Unit.TIME),
            fact(said("last ack"), max(each.last_ack_ms for each in consumers), Unit.TIME),
        ),
        cures=(
            Cure(
                text=said(
                    "Find out what the application waits for: a thread dump shows whether it calls receive()."
                )
            ),
            Cure(text=said("Look at the consumers"), block="consumers"),
            Cure(
                text=said("Disconnect {name}", name=latest.name),
                act="disconnect",
                parameters=snapshot.which(latest),
            ),
        ),
    )


RULE: Final = Rule(id="no_permits", window_s=WINDOW_S, find=find)
