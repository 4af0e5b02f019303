"""Report that delivery stops because entries are missing from the log."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    gap = snapshot.subscription.gap
    if not gap:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said("Entries are missing from the log, and the broker delivers nothing beyond them."),
        evidence=(fact(said("what is missing"), gap),),
        cures=(
            Cure(text=said("Restore the missing rows from a backup and unload the topic.")),
            Cure(text=said("Move the cursor past the gap"), act="reset"),
        ),
    )


RULE: Final = Rule(id="log_gap", window_s=WINDOW_S, find=find)
