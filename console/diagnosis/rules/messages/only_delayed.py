"""Report that only delayed messages are left."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription, delayed, cursor = snapshot.subscription, snapshot.delayed, snapshot.cursor
    if delayed is None or cursor.in_flight_entries or not subscription.backlog_messages:
        return None
    if not snapshot.consumers or subscription.pause is not None:
        return None
    if subscription.type not in ("Shared", "Key_Shared"):
        return None  # Exclusive and Failover ignore delays
    if delayed.is_whole:
        is_all = cursor.unacked_entries is not None and delayed.entries >= cursor.unacked_entries
    else:
        is_all = subscription.state == "idle" and subscription.replay_entries == 0
    if not is_all:
        return None
    evidence = (
        fact(said("delayed"), delayed.entries, Unit.ENTRIES)
        if delayed.is_whole
        else fact(said("delayed"), said("at least {entries} entries", entries=count(delayed.entries))),
        fact(said("the next one is due"), delayed.next_due_ms, Unit.TIME),
    )
    return Finding(
        rule=RULE.id,
        severity=Severity.FINE,
        sentence=said("Only delayed messages are left. They are delivered when they are due."),
        evidence=evidence if delayed.entries else (),
        cures=(Cure(text=said("Wait; there is nothing to do.")),),
    )


RULE: Final = Rule(id="only_delayed", window_s=WINDOW_S, find=find)
