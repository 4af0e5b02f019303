"""Report that Vela cannot drop the oldest segment of stored entries, because one of the entries is unacked."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 3600.0


def find(snapshot: Snapshot) -> Finding | None:
    segment, first = snapshot.oldest_segment, snapshot.cursor.first
    if segment is None or first is None or not segment.closed_ms:
        return None
    if snapshot.seconds_since(segment.closed_ms) < WINDOW_S:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=said(
            "This subscription's oldest unacked message is in the oldest segment of the database, which cannot"
            " be dropped while the message is there."
        ),
        evidence=(
            fact(said("segment"), f"vela_entry_{segment.id}"),
            fact(said("closed"), segment.closed_ms, Unit.TIME),
            fact(said("ledgers still in it"), str(segment.ledgers)),
            fact(said("oldest unacked"), first.position),
            fact(said("stored"), first.appended_ms, Unit.TIME),
        ),
        cures=(
            Cure(text=said("Look at the oldest message"), block="next"),
            Cure(
                text=said("Set message_ttl_ms on the topic if old messages may expire: `vela policies set`.")
            ),
        ),
    )


RULE: Final = Rule(id="oldest_segment", window_s=WINDOW_S, find=find)
