"""Report consumers that have reached the limit of unacked messages for one consumer."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    blocked = [each for each in snapshot.consumers if each.is_blocked]
    if not blocked:
        return None
    worst = min(blocked, key=lambda each: each.oldest_delivered_ms or snapshot.now_ms)
    limit = snapshot.limits.unacked_per_consumer
    others_take = any(each.is_available for each in snapshot.consumers)
    if len(blocked) == 1:
        sentence = said(
            "{name} has as many unacked messages as one consumer may have ({limit}), so it gets nothing more"
            " until half of them are acked.",
            name=worst.name,
            limit=count(limit),
        )
    else:
        sentence = said(
            "{blocked} of {consumers} consumers have as many unacked messages as one consumer may have ({limit}), so"
            " they get nothing more until half of these are acked.",
            blocked=len(blocked),
            consumers=len(snapshot.consumers),
            limit=count(limit),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if others_take else Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact(said("in flight at {name}", name=worst.name), worst.unacked_messages, Unit.MESSAGES),
            fact(said("limit"), limit, Unit.MESSAGES),
            fact(said("oldest of them delivered"), worst.oldest_delivered_ms, Unit.TIME),
            fact(said("its last ack"), worst.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(text=said("Look at what is in flight"), block="pending"),
            Cure(
                text=said("Redeliver the messages that {name} has", name=worst.name),
                act="redeliver",
                parameters=snapshot.which(worst),
            ),
            Cure(text=said("Make the consumer ack. The limit is the policy `max_unacked_per_consumer`.")),
        ),
    )


RULE: Final = Rule(id="consumer_limit", window_s=WINDOW_S, find=find)
