"""Report that the oldest unacked entry is redelivered again and again."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0
LEAST_REDELIVERIES: Final = 3


def find(snapshot: Snapshot) -> Finding | None:
    first = snapshot.cursor.first
    if first is None or first.redelivery_count < LEAST_REDELIVERIES:
        return None
    what = said("message") if first.messages == 1 else said("batch")
    evidence = [
        fact(said("position"), first.position),
        fact(said("redelivered"), first.redelivery_count, Unit.TIMES),
        fact(said("stored"), first.appended_ms, Unit.TIME),
        fact(said("acked behind it"), snapshot.cursor.acked_behind_entries, Unit.ENTRIES),
    ]
    if first.consumer_name:
        evidence.append(fact(said("now at"), first.consumer_name))
    only_left = snapshot.subscription.backlog_messages == first.messages
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED if only_left or not snapshot.consumers_ack else Severity.SLOW,
        sentence=said(
            "The oldest unacked {what} was redelivered {times} times: the consumers cannot process it.",
            what=what,
            times=count(first.redelivery_count),
        ),
        evidence=tuple(evidence),
        cures=(
            Cure(text=said("Look at the {what}", what=what), block="next"),
            Cure(
                text=said("Send only this {what} to the dead letters", what=what),
                act="send_to_dead_letters",
                parameters={"id": first.position},
            ),
            Cure(
                text=said("Skip only this {what}", what=what),
                act="skip_one",
                parameters={"id": first.position},
            ),
            Cure(
                text=said(
                    "Fix the consumer, or give its client a dead-letter policy, which moves such messages"
                    " out of the way."
                )
            ),
        ),
    )


RULE: Final = Rule(id="poison", window_s=WINDOW_S, find=find)
