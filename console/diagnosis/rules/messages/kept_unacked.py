"""Report a message that was delivered long ago, is still unacked, and has no ack timeout at the broker."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 20.0


def find(snapshot: Snapshot) -> Finding | None:
    first = snapshot.cursor.first
    if first is None or not first.consumer_key or first.broker_keeps_time:
        return None
    if not first.delivered_ms or snapshot.seconds_since(first.delivered_ms) < WINDOW_S:
        return None
    consumer = next((each for each in snapshot.consumers if each.key == first.consumer_key), None)
    if consumer is None:
        return None
    if snapshot.seconds_since(consumer.last_ack_ms) < WINDOW_S:
        return None
    if snapshot.has_working_state and not snapshot.cursor.acked_behind_entries:
        return None  # The consumer may still be processing this message
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.consumers_ack else Severity.STOPPED,
        sentence=said(
            "{name} has had the oldest message for a long time without an ack, and nothing takes it back: the"
            " broker keeps no ack timeout for it.",
            name=consumer.name,
        ),
        evidence=(
            fact(said("position"), first.position),
            fact(said("delivered"), first.delivered_ms, Unit.TIME),
            fact(said("in flight at {name}", name=consumer.name), consumer.unacked_messages, Unit.MESSAGES),
            fact(said("its last ack"), consumer.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(
                text=said("Redeliver the messages that {name} has", name=consumer.name),
                act="redeliver",
                parameters=snapshot.which(consumer),
            ),
            Cure(
                text=said(
                    "Check whether the application acks every message. Set an ack timeout in its client."
                )
            ),
        ),
    )


RULE: Final = Rule(id="kept_unacked", window_s=WINDOW_S, find=find)
