"""Report that a consumer without a receiver queue got a batch."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    first = snapshot.cursor.first
    if first is None or first.messages < 2:
        return None
    # The consumer granted one permit. The batch used one permit for each message.
    stuck = [
        each
        for each in snapshot.consumers
        if each.permits == 1 - first.messages
        and each.unacked_messages == first.messages
        and snapshot.seconds_since(each.last_sign_ms) >= WINDOW_S
    ]
    if not stuck:
        return None
    consumer = stuck[0]
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "{name} asked for one message and was sent a batch of {messages}, which a"
            " consumer with a receiver queue of 0 cannot take.",
            name=consumer.name,
            messages=count(first.messages),
        ),
        evidence=(
            fact(said("the batch"), first.position),
            fact(said("messages in it"), first.messages, Unit.MESSAGES),
            fact(said("permits"), consumer.permits, Unit.MESSAGES),
            fact(said("client"), consumer.client_version),
        ),
        cures=(
            Cure(
                text=said(
                    "Give the consumer a receiver queue of 1 or more, or make producers send without batches."
                )
            ),
            Cure(text=said("Skip only this batch"), act="skip_one", parameters={"id": first.position}),
        ),
    )


RULE: Final = Rule(id="zero_queue_batch", window_s=WINDOW_S, find=find)
