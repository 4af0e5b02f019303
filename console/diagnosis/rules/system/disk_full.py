"""Report that the disk of the database is nearly full."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0
_LEAST_BYTES: Final = 1 << 30
_LEAST_SHARE: Final = 0.05


def find(snapshot: Snapshot) -> Finding | None:
    disk = snapshot.disk
    if disk is None or disk.free_bytes >= max(_LEAST_BYTES, _LEAST_SHARE * disk.total_bytes):
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=said(
            "The disk of the database is nearly full. Without room PostgreSQL stops, and nothing is published,"
            " acked or delivered."
        ),
        evidence=(
            fact(said("free"), disk.free_bytes, Unit.BYTES),
            fact(said("of"), disk.total_bytes, Unit.BYTES),
            fact(said("folder"), disk.folder),
        ),
        cures=(
            Cure(
                text=said(
                    "Make room on the disk. To let Vela free data, lower retention_ms and retention_bytes."
                )
            ),
        ),
    )


RULE: Final = Rule(id="disk_full", window_s=WINDOW_S, find=find)
