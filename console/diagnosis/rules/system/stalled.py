"""Report that the broker sends no messages, although messages are ready and consumers ask for messages."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.rules.system import no_broker
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 10.0


def find(snapshot: Snapshot) -> Finding | None:
    if _is_held_back(snapshot):
        return None
    subscription, ready = snapshot.subscription, snapshot.ready_entries
    available = [each for each in snapshot.consumers if each.is_available]
    if subscription.active_consumer:
        available = [each for each in available if each.key == subscription.active_consumer]
    if not available or not ready:
        return None
    if min(snapshot.seconds_since(each.last_sign_ms) for each in available) < WINDOW_S:
        return None
    if snapshot.topic.last_append_ms and snapshot.seconds_since(snapshot.topic.last_append_ms) < WINDOW_S:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "Consumers ask for messages and messages are ready, but the broker sends none: the fault is in"
            " the broker."
        ),
        evidence=(
            fact(said("ready"), ready, Unit.ENTRIES),
            fact(said("permits"), sum(each.permits for each in available), Unit.MESSAGES),
            fact(said("last delivery"), max(each.last_delivery_ms for each in available), Unit.TIME),
        ),
        cures=(
            Cure(
                text=said("Disconnect {name}", name=available[0].name),
                act="disconnect",
                parameters=snapshot.which(available[0]),
            ),
            Cure(
                text=said(
                    "Unload the topic (`vela topics unload`); clients reconnect. Keep the broker's log for a report."
                )
            ),
        ),
    )


def _is_held_back(snapshot: Snapshot) -> bool:
    subscription, database = snapshot.subscription, snapshot.database
    return (
        subscription.pause is not None
        or bool(subscription.gap)
        or bool(subscription.read_fault)
        or bool(subscription.is_blocked)
        or bool(subscription.is_rate_limited)
        or subscription.key_block is not None
        or (database is not None and database.waiting_statements > 0)
        or no_broker.RULE.find(snapshot) is not None
    )


RULE: Final = Rule(id="stalled", window_s=WINDOW_S, find=find)
