"""Report that consumers ack more slowly than producers publish."""

from __future__ import annotations

from math import ceil
from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.pace import SHARED, WINDOW_S, are_known, idle_among, starved_among
from console.diagnosis.snapshot import STILL_PER_S, Consumer, Snapshot
from console.words.numerals import count
from console.words.said import said, said_many

__all__ = ["RULE"]

_MOST_MORE: Final = 20
_BACKLOG_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    rate_in, rate_acked = snapshot.topic.message_rate_in, subscription.message_rate_acked
    if rate_in is None or rate_acked is None or not snapshot.consumers:
        return None
    is_judged = subscription.state == "falling behind"
    if not is_judged and not _grows(snapshot, rate_in, rate_acked):
        return None
    idle = idle_among(snapshot.consumers, subscription.type, snapshot.now_ms)
    starved = starved_among(snapshot.consumers, subscription.type, snapshot.now_ms)
    working = len(snapshot.consumers) - len(idle) - len(starved) if subscription.type in SHARED else 1
    each_acks = rate_acked / max(1, working)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence=said("Producers publish faster than the consumers ack, so the backlog grows."),
        evidence=(
            fact(said("published"), rate_in, Unit.PER_SECOND),
            fact(said("acked"), rate_acked, Unit.PER_SECOND),
            fact(said("acked by each consumer"), each_acks, Unit.PER_SECOND),
            fact(said("consumers"), len(snapshot.consumers), Unit.CONSUMERS),
            *((fact(said("consumers that take no messages"), len(idle), Unit.CONSUMERS),) if idle else ()),
            *(
                (fact(said("consumers that get no messages"), len(starved), Unit.CONSUMERS),)
                if starved
                else ()
            ),
            *((fact(said("falling behind"), subscription.state_since_ms, Unit.TIME),) if is_judged else ()),
        ),
        cures=(
            *(_cure_of_idle(each) for each in idle[:1]),
            _cure_of_starved(subscription.type)
            if starved
            else _cure(
                subscription.type, _missing(snapshot, rate_in - rate_acked, each_acks) if is_judged else 0
            ),
        ),
    )


def _missing(snapshot: Snapshot, too_many_per_s: float, each_acks_per_s: float) -> int:
    """Return how many more consumers are needed, or 0 if the number is unknown or too large."""
    if each_acks_per_s < STILL_PER_S or not are_known(snapshot.consumers, snapshot.now_ms):
        return 0
    more = max(1, ceil(too_many_per_s / each_acks_per_s))
    return more if more <= _MOST_MORE else 0


def _cure_of_idle(consumer: Consumer) -> Cure:
    return Cure(
        text=said(
            "Find out what {name} waits for: its queue is full, and its application takes no message out.",
            name=consumer.name,
        )
    )


def _cure_of_starved(type_: str) -> Cure:
    if type_ == "Key_Shared":
        return Cure(
            text=said(
                "Spread the messages over more keys, or make each consumer faster: some consumers get no message,"
                " so more consumers would not help."
            )
        )
    return Cure(
        text=said(
            "Make each consumer faster: some consumers get no message, so more consumers would not help."
        )
    )


def _grows(snapshot: Snapshot, rate_in: float, rate_acked: float) -> bool:
    return (
        snapshot.subscription.state in ("watching", "unknown")
        and snapshot.seconds_since(snapshot.subscription.state_since_ms) >= WINDOW_S
        and are_known(snapshot.consumers, snapshot.now_ms)
        and rate_acked >= STILL_PER_S
        and rate_in - rate_acked >= STILL_PER_S
        and snapshot.subscription.backlog_messages > rate_in * _BACKLOG_S
    )


def _cure(type_: str, more: int) -> Cure:
    if type_ in SHARED:
        if not more:
            return Cure(text=said("Make each consumer faster, or add consumers."))
        return Cure(
            text=said_many(
                "Add at least {number} consumer as fast as these, or make each one faster.",
                "Add at least {number} consumers as fast as these, or make each one faster.",
                n=more,
                number=count(more),
            )
        )
    return Cure(
        text=said(
            "Make the consumer faster. {type} gives everything to one consumer: to share the work,"
            " use Shared or Key_Shared, or more partitions.",
            type=type_ or said("This type"),
        )
    )


RULE: Final = Rule(id="too_slow", window_s=WINDOW_S, find=find)
