"""Everything that is left is delayed: it is delivered when it is due."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    delayed, cursor = snapshot.delayed, snapshot.cursor
    if delayed is None or not delayed.is_whole or cursor.unacked_entries is None:
        return None
    if snapshot.subscription.type not in ("Shared", "Key_Shared"):
        return None  # the other types deliver delayed messages at once
    if cursor.in_flight_entries or delayed.entries < cursor.unacked_entries:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.FINE,
        sentence="Only delayed messages are left. They are delivered when they are due.",
        evidence=(
            fact("delayed", delayed.entries, Unit.ENTRIES),
            fact("the next one is due", delayed.next_due_ms, Unit.TIME),
        ),
        cures=(Cure(text="Wait; there is nothing to do."),),
    )


RULE: Final = Rule(id="only_delayed", window_s=WINDOW_S, find=find)
