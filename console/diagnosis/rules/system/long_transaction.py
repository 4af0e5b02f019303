"""Report that a transaction has been open for a long time."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 30.0


def find(snapshot: Snapshot) -> Finding | None:
    database = snapshot.database
    if database is None or database.longest_transaction_s < WINDOW_S:
        return None
    program = database.transaction_program or said("A program without a name")
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=said(
            "{program} keeps a transaction open in PostgreSQL. While it is open, updated rows are not"
            " cleaned up, and acks get slower.",
            program=program,
        ),
        evidence=(
            fact(said("open for"), database.longest_transaction_s, Unit.SECONDS),
            fact(said("state"), database.transaction_state),
            fact(said("pid"), str(database.transaction_pid)),
        ),
        cures=(
            Cure(
                text=said(
                    "End the transaction in the program that began it, or with SELECT"
                    " pg_terminate_backend({pid});",
                    pid=database.transaction_pid,
                )
            ),
        ),
    )


RULE: Final = Rule(id="long_transaction", window_s=WINDOW_S, find=find)
