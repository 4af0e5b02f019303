"""Report a hoarder: a consumer that has prefetched nearly everything, while others wait for messages."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Consumer, Snapshot
from console.words.numerals import count
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 5.0
LEAST_MESSAGES: Final = 10
LEAST_SHARE: Final = 0.8
LEAST_TIMES: Final = 20


def find(snapshot: Snapshot) -> Finding | None:
    subscription, consumers = snapshot.subscription, snapshot.consumers
    if subscription.type not in ("Shared", "Key_Shared") or len(consumers) < 2:
        return None
    hoarder = max(consumers, key=lambda each: each.unacked_messages)
    in_flight = sum(each.unacked_messages for each in consumers)
    if in_flight < LEAST_MESSAGES or hoarder.unacked_messages < LEAST_SHARE * in_flight:
        return None
    few = [
        each
        for each in consumers
        if each.unacked_messages * LEAST_TIMES <= hoarder.unacked_messages
        and each.is_available
        and snapshot.seconds_since(max(each.connected_ms, each.last_delivery_ms)) >= WINDOW_S
    ]
    # Report nothing if entries are ready, or if their number is unknown (None).
    if not few or snapshot.ready_entries != 0:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.consumers_ack else Severity.STOPPED,
        sentence=_sentence(hoarder, few),
        evidence=(
            fact(said("in flight at {name}", name=hoarder.name), hoarder.unacked_messages, Unit.MESSAGES),
            fact(said("in flight in total"), in_flight, Unit.MESSAGES),
            fact(said("consumers that ask for more"), len(few), Unit.CONSUMERS),
            fact(said("last ack of {name}", name=hoarder.name), hoarder.last_ack_ms, Unit.TIME),
        ),
        cures=(
            _cure(snapshot, hoarder, room=sum(each.permits for each in few)),
            Cure(text=said("Compare the consumers"), block="consumers"),
            Cure(
                text=said("Give its client a smaller receiver queue, so that it prefetches fewer messages.")
            ),
        ),
    )


def _cure(snapshot: Snapshot, hoarder: Consumer, room: int) -> Cure:
    """Return the cure that gives the hoarder's messages to the other consumers: a redelivery or a disconnect.

    The other consumers ask for `room` messages. If the hoarder has more messages than that, a disconnect is not enough:
    the hoarder connects again and gets the rest back. After a redelivery on Shared, a hoarder whose queue is full gets
    no message back.
    """
    if snapshot.subscription.type == "Shared" and hoarder.permits <= 0 and room < hoarder.unacked_messages:
        return Cure(
            text=said(
                "Redeliver the messages of {name}: the others get them as they ask for more",
                name=hoarder.name,
            ),
            act="redeliver",
            parameters=snapshot.which(hoarder),
        )
    return Cure(
        text=said(
            "Disconnect {name}: the others get its messages, and it comes back with an empty queue",
            name=hoarder.name,
        ),
        act="disconnect",
        parameters=snapshot.which(hoarder),
    )


def _sentence(hoarder: Consumer, few: list[Consumer]) -> str:
    messages, most = count(hoarder.unacked_messages), max(each.unacked_messages for each in few)
    if len(few) == 1:
        if not most:
            return said(
                "{name} has {messages} messages in its queue, while {other} has nothing to do.",
                name=hoarder.name,
                messages=messages,
                other=few[0].name,
            )
        return said(
            "{name} has {messages} messages in its queue, while {other} has {few}.",
            name=hoarder.name,
            messages=messages,
            other=few[0].name,
            few=count(most),
        )
    if not most:
        return said(
            "{name} has {messages} messages in its queue, while {others} other consumers have nothing to do.",
            name=hoarder.name,
            messages=messages,
            others=len(few),
        )
    return said(
        "{name} has {messages} messages in its queue, while {others} other consumers have at most {few} each.",
        name=hoarder.name,
        messages=messages,
        others=len(few),
        few=count(most),
    )


RULE: Final = Rule(id="hoarder", window_s=WINDOW_S, find=find)
