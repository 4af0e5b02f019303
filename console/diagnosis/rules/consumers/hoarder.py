"""One consumer has prefetched nearly everything, and the others have nothing to do."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said

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
    messages = count(hoarder.unacked_messages)
    if len(idle) == 1:
        sentence = said(
            "{name} has {messages} messages in its queue, while {other} has nothing to do.",
            name=hoarder.name,
            messages=messages,
            other=idle[0].name,
        )
    else:
        sentence = said(
            "{name} has {messages} messages in its queue, while {others} other consumers have nothing to do.",
            name=hoarder.name,
            messages=messages,
            others=len(idle),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.is_draining_at_all else Severity.STOPPED,
        sentence=sentence,
        evidence=(
            fact(said("in flight at {name}", name=hoarder.name), hoarder.unacked_messages, Unit.MESSAGES),
            fact(said("in flight in all"), in_flight, Unit.MESSAGES),
            fact(said("idle"), len(idle), Unit.CONSUMERS),
            fact(said("last ack of {name}", name=hoarder.name), hoarder.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(
                # Not disconnect: its client connects again at once and takes everything back.
                text=said("Redeliver what {name} has: the others get a share", name=hoarder.name),
                act="redeliver",
                parameters=snapshot.which(hoarder),
            ),
            Cure(text=said("Compare the consumers"), block="consumers"),
            Cure(
                text=said("Give its client a smaller receiver queue, so that it takes fewer messages ahead.")
            ),
        ),
    )


RULE: Final = Rule(id="hoarder", window_s=WINDOW_S, find=find)
