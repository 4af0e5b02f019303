"""Report that the broker cannot read the log."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    fault = snapshot.subscription.read_fault
    if not fault:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "The broker cannot read the next messages from the log. It tries again every few seconds, and"
            " consumers wait."
        ),
        evidence=(fact(said("the latest attempt"), fault),),
        cures=(
            Cure(
                text=said(
                    "Restore what the error names: access to the storage (check its server, its bucket or folder,"
                    " and the broker's credentials), or the file, from a backup. Delivery then resumes automatically."
                )
            ),
        ),
    )


RULE: Final = Rule(id="unreadable_log", window_s=WINDOW_S, find=find)
