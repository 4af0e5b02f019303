"""The database makes the broker wait: a statement of Vela waits for a lock that somebody else has."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 5.0  # of waiting; Vela's own locks last milliseconds


def find(snapshot: Snapshot) -> Finding | None:
    database = snapshot.database
    if database is None or not database.waiting_statements or database.longest_wait_s < WINDOW_S:
        return None
    program = database.blocking_program or "another connection"
    whom = f"{program} (pid {database.blocking_pid})" if database.blocking_pid else program
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.is_draining_at_all else Severity.STOPPED,
        sentence=f"A statement of Vela waits for a lock in PostgreSQL that {whom} has.",
        evidence=(
            fact("waits for", database.longest_wait_s, Unit.SECONDS),
            fact("statements that wait", database.waiting_statements, Unit.TIMES),
            fact("the statement", database.waiting_query),
        ),
        cures=(
            Cure(
                text="End that transaction where it was begun, or with"
                f" SELECT pg_terminate_backend({database.blocking_pid});"
                if database.blocking_pid
                else "Find the connection that has it with SELECT pid, pg_blocking_pids(pid) FROM pg_stat_activity;"
            ),
        ),
    )


RULE: Final = Rule(id="database_blocked", window_s=WINDOW_S, find=find)
