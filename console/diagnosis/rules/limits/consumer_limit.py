"""Consumers are blocked: they have as many unacked messages as one consumer may have."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    blocked = [each for each in snapshot.consumers if each.is_blocked]
    if not blocked:
        return None
    worst = min(blocked, key=lambda each: each.oldest_delivered_ms or snapshot.now_ms)
    limit = snapshot.limits.unacked_per_consumer
    many = f"{len(blocked)} of {len(snapshot.consumers)} consumers have"
    who = f"{worst.name} has" if len(blocked) == 1 else many
    others_take = any(each.is_available for each in snapshot.consumers)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if others_take else Severity.STOPPED,
        sentence=f"{who} as many unacked messages as one consumer may have ({count(limit)}), so nothing is sent until"
        " half of them are acked.",
        evidence=(
            fact(f"in flight at {worst.name}", worst.unacked_messages, Unit.MESSAGES),
            fact("limit", limit, Unit.MESSAGES),
            fact("oldest of them delivered", worst.oldest_delivered_ms, Unit.TIME),
            fact("its last ack", worst.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(text="Look at what is in flight", block="pending"),
            Cure(
                text=f"Redeliver the messages that {worst.name} has",
                act="redeliver",
                parameters=snapshot.which(worst),
            ),
            Cure(text="Make the consumer ack. The limit is the policy `max_unacked_per_consumer`."),
        ),
    )


RULE: Final = Rule(id="consumer_limit", window_s=WINDOW_S, find=find)
