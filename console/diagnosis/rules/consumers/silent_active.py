"""Report that the active consumer of a Failover subscription does nothing."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 10.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription, consumers = snapshot.subscription, snapshot.consumers
    active = next((each for each in consumers if each.key == subscription.active_consumer), None)
    if active is None or len(consumers) < 2 or not subscription.backlog_messages:
        return None
    if snapshot.has_working_state:
        return None
    if active.is_available and not active.unacked_messages:
        return None
    if snapshot.seconds_since(active.last_sign_ms) < WINDOW_S:
        return None
    standby = next(each for each in consumers if each.key != active.key)
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "{name} is the active consumer and does nothing, while {standby} stands by.",
            name=active.name,
            standby=standby.name,
        ),
        evidence=(
            fact(said("in flight at {name}", name=active.name), active.unacked_messages, Unit.MESSAGES),
            fact(said("its permits"), active.permits, Unit.MESSAGES),
            fact(said("its last ack"), active.last_ack_ms, Unit.TIME),
            fact(said("its last request for messages"), active.last_flow_ms, Unit.TIME),
            fact(said("standing by"), len(consumers) - 1, Unit.CONSUMERS),
        ),
        cures=(
            Cure(
                text=said("Disconnect {name}: another consumer becomes active", name=active.name),
                act="disconnect",
                parameters=snapshot.which(active),
            ),
        ),
    )


RULE: Final = Rule(id="silent_active", window_s=WINDOW_S, find=find)
