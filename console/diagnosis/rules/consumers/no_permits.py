"""No consumer asks for more: every client's queue is full, because its application does not take messages out."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 10.0  # without a request, a delivery or an ack


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
        sentence = (
            "Consumers are connected and have never asked for a message: their applications do not receive."
        )
    elif len(consumers) == 1:
        sentence = (
            f"{latest.name} asks for no more messages: its queue is full, and its application takes none out."
        )
    else:
        sentence = (
            f"None of the {len(consumers)} consumers asks for more messages: their queues are full, and their"
            " applications take none out."
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact("permits", sum(each.permits for each in consumers), Unit.MESSAGES),
            fact("in flight", sum(each.unacked_messages for each in consumers), Unit.MESSAGES),
            fact("last request for messages", max(each.last_flow_ms for each in consumers), Unit.TIME),
            fact("last ack", max(each.last_ack_ms for each in consumers), Unit.TIME),
        ),
        cures=(
            Cure(
                text="Find what the application waits for: a thread dump shows whether receive() is called."
            ),
            Cure(text="Look at the consumers", block="consumers"),
            Cure(text=f"Disconnect {latest.name}", act="disconnect", parameters=snapshot.which(latest)),
        ),
    )


RULE: Final = Rule(id="no_permits", window_s=WINDOW_S, find=find)
