"""Report that a statement of Vela waits for a lock in PostgreSQL."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    database = snapshot.database
    if database is None or not database.waiting_statements or database.longest_wait_s < WINDOW_S:
        return None
    whom = database.blocking_program or said("another connection")
    if database.blocking_pid:
        whom = said("{program} (pid {pid})", program=whom, pid=database.blocking_pid)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.consumers_ack else Severity.STOPPED,
        sentence=said("A statement of Vela waits for a lock in PostgreSQL that {whom} holds.", whom=whom),
        evidence=(
            fact(said("waits for"), database.longest_wait_s, Unit.SECONDS),
            fact(said("statements that wait"), database.waiting_statements, Unit.STATEMENTS),
            fact(said("the statement"), database.waiting_query),
        ),
        cures=(
            Cure(
                text=said(
                    "End that transaction in the program that began it, or with SELECT"
                    " pg_terminate_backend({pid});",
                    pid=database.blocking_pid,
                )
                if database.blocking_pid
                else said(
                    "To find the connection that holds the lock, run SELECT pid, pg_blocking_pids(pid) FROM"
                    " pg_stat_activity;"
                )
            ),
        ),
    )


RULE: Final = Rule(id="database_blocked", window_s=WINDOW_S, find=find)
