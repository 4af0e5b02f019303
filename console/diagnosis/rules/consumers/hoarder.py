"""One consumer has prefetched nearly everything, and the others have nothing to do."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count

__all__ = ["RULE"]

WINDOW_S: Final = 5.0  # in which the others got nothing
LEAST_MESSAGES: Final = 10
LEAST_SHARE: Final = 0.8


def find(snapshot: Snapshot) -> Finding | None:
    subscription, consumers = snapshot.subscription, snapshot.consumers
    if subscription.type not in ("Shared", "Key_Shared") or len(consumers) < 2:
        return None
    hoarder = max(consumers, key=lambda each: each.unacked_messages)
    in_flight = sum(each.unacked_messages for each in consumers)
    if in_flight < LEAST_MESSAGES or hoarder.unacked_messages < LEAST_SHARE * in_flight:
        return None
    idle = [
        each
        for each in consumers
        if each.is_available
        and not each.unacked_messages
        and snapshot.seconds_since(max(each.connected_ms, each.last_delivery_ms)) >= WINDOW_S
    ]
    if not idle or snapshot.ready_entries != 0:
        return None
    others = f"{idle[0].name} has" if len(idle) == 1 else f"{len(idle)} other consumers have"
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.is_draining_at_all else Severity.STOPPED,
        sentence=f"{hoarder.name} has {count(hoarder.unacked_messages)} messages in its queue, while {others} nothing"
        " to do.",
        evidence=(
            fact(f"in flight at {hoarder.name}", hoarder.unacked_messages, Unit.MESSAGES),
            fact("in flight in all", in_flight, Unit.MESSAGES),
            fact("idle", len(idle), Unit.CONSUMERS),
            fact(f"last ack of {hoarder.name}", hoarder.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(
                text=f"Disconnect {hoarder.name}: its messages go to the others",
                act="disconnect",
                parameters=snapshot.which(hoarder),
            ),
            Cure(text="Compare the consumers", block="consumers"),
            Cure(text="Give its client a smaller receiver queue, so that it takes fewer messages ahead."),
        ),
    )


RULE: Final = Rule(id="hoarder", window_s=WINDOW_S, find=find)
