"""Consumers ack more slowly than producers publish: the backlog grows although everybody works."""

from __future__ import annotations

from math import ceil
from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import STILL_PER_S, Snapshot
from console.words.numerals import count
from console.words.said import said, said_many

__all__ = ["RULE"]

WINDOW_S: Final = 5.0  # over which the broker measures rates
_BACKLOG_S: Final = 5.0  # of publishing: a smaller backlog is only messages on their way


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    rate_in, rate_acked = snapshot.topic.message_rate_in, subscription.message_rate_acked
    if rate_in is None or rate_acked is None or not snapshot.consumers:
        return None
    # The broker judges the state over at least half a minute, so rates of a few seconds do not overrule it.
    is_judged = subscription.state == "falling behind"
    if not is_judged and not _grows(snapshot, rate_in, rate_acked):
        return None
    each_acks = rate_acked / len(snapshot.consumers)
    more = max(1, ceil((rate_in - rate_acked) / each_acks)) if rate_acked >= STILL_PER_S else 0
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence=said("Producers publish faster than the consumers ack, so the backlog grows."),
        evidence=(
            fact(said("published"), rate_in, Unit.PER_SECOND),
            fact(said("acked"), rate_acked, Unit.PER_SECOND),
            fact(said("acked by each consumer"), each_acks, Unit.PER_SECOND),
            fact(said("consumers"), len(snapshot.consumers), Unit.CONSUMERS),
            *((fact(said("falling behind"), subscription.state_since_ms, Unit.TIME),) if is_judged else ()),
        ),
        cures=(_cure(subscription.type, more),),
    )


def _grows(snapshot: Snapshot, rate_in: float, rate_acked: float) -> bool:
    """Return whether the rates say that the backlog grows. False once the broker has judged the state."""
    return (
        snapshot.subscription.state in ("watching", "unknown")
        and rate_acked >= STILL_PER_S
        and rate_in - rate_acked >= STILL_PER_S
        and snapshot.subscription.backlog_messages > rate_in * _BACKLOG_S
    )


def _cure(type_: str, more: int) -> Cure:
    """Return the cure. `more` is the number of consumers to add; 0 = unknown."""
    if type_ in ("Shared", "Key_Shared"):
        if not more:
            return Cure(text=said("Add consumers, or make each one faster."))
        return Cure(
            text=said_many(
                "Add {number} consumer as fast as these, or make each one faster.",
                "Add {number} consumers as fast as these, or make each one faster.",
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
