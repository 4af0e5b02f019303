"""Report that no broker runs, or that the broker hangs."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said
from console.words.troubles import SILENT_AFTER_MS

__all__ = ["RULE"]

WINDOW_S: Final = SILENT_AFTER_MS / 1000


def find(snapshot: Snapshot) -> Finding | None:
    processes = snapshot.processes
    if processes.broker_seen_ms and snapshot.seconds_since(processes.broker_seen_ms) < WINDOW_S:
        return None
    if processes.broker_seen_ms:
        sentence = said(
            "No broker answers, so nothing is delivered. Rates and connections are from the broker's last"
            " report."
        )
    else:
        sentence = said("No broker has run on this database yet, so nothing is delivered.")
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact(said("last sign of the broker"), processes.broker_seen_ms, Unit.TIME),
            fact(said("on"), processes.broker_host),
        ),
        cures=(
            Cure(
                text=said(
                    "Start the broker with `make run` or `manage.py runbroker`. The broker's log says why it"
                    " ended. If the broker's process still runs, it hangs: end the process first."
                )
            ),
        ),
    )


RULE: Final = Rule(id="no_broker", window_s=WINDOW_S, find=find)
