"""Report consumers whose connections accept no bytes."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    stuck = [
        each
        for each in snapshot.consumers
        if not each.is_writable and snapshot.seconds_since(each.last_delivery_ms) >= WINDOW_S
    ]
    if not stuck or not snapshot.subscription.backlog_messages:
        return None
    first = min(stuck, key=lambda each: each.last_delivery_ms)
    others_take = any(each.is_available for each in snapshot.consumers)
    if len(stuck) == 1:
        sentence = said(
            "The connection of {name} accepts no bytes, so the broker cannot send to it.", name=first.name
        )
    else:
        sentence = said(
            "The connections of {name} and {others} more accept no bytes, so the broker cannot send to them.",
            name=first.name,
            others=len(stuck) - 1,
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if others_take else Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact(said("from"), first.address),
            fact(said("permits"), first.permits, Unit.MESSAGES),
            fact(said("last delivery"), first.last_delivery_ms, Unit.TIME),
        ),
        cures=(
            Cure(text=said("Look for a slow network, or a client process that hangs or is suspended.")),
            Cure(
                text=said("Disconnect {name}", name=first.name),
                act="disconnect",
                parameters=snapshot.which(first),
            ),
        ),
    )


RULE: Final = Rule(id="not_reading", window_s=WINDOW_S, find=find)
