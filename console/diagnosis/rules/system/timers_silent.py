"""Report that Celery beat or the Celery worker shows no sign of life."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said
from console.words.troubles import TICKS_MISSED, WITHOUT_CELERY

__all__ = ["RULE"]

WINDOW_S: Final = 15.0


def find(snapshot: Snapshot) -> Finding | None:
    processes = snapshot.processes
    window_s = max(WINDOW_S, TICKS_MISSED * processes.tick_ms / 1000)
    beat_is_silent = snapshot.seconds_since(processes.beat_seen_ms) >= window_s
    worker_is_silent = snapshot.seconds_since(processes.worker_seen_ms) >= window_s
    if not beat_is_silent and not worker_is_silent:
        return None
    who = said("Celery beat sends no ticks") if beat_is_silent else said("Celery's worker runs no ticks")
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=said(
            "{who}. {effects}",
            who=who,
            effects=said(WITHOUT_CELERY),
        ),
        evidence=(
            fact(said("last tick sent"), processes.beat_seen_ms, Unit.TIME),
            fact(said("last tick run"), processes.worker_seen_ms, Unit.TIME),
        ),
        cures=(
            Cure(
                text=said(
                    "Start Celery beat, for example with `make run`. The log of Celery beat says why it ended."
                )
                if beat_is_silent
                else said(
                    "Start the worker of the queue of ticks, for example with `make run`. The worker's log"
                    " says why it ended."
                )
            ),
        ),
    )


RULE: Final = Rule(id="timers_silent", window_s=WINDOW_S, find=find)
