"""Consumers ack more slowly than producers publish: the backlog grows although everybody works."""

from __future__ import annotations

from math import ceil
from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import STILL_PER_S, Snapshot
from console.words.numerals import count

__all__ = ["RULE"]

WINDOW_S: Final = 5.0  # over which the broker measures rates
_BACKLOG_S: Final = 5.0  # of publishing: a smaller backlog is only messages on their way


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    rate_in, rate_acked = snapshot.topic.message_rate_in, subscription.message_rate_acked
    if rate_in is None or rate_acked is None or rate_acked < STILL_PER_S or not snapshot.consumers:
        return None
    # The broker's state is judged over half a minute. It is the better judge once there is one.
    if (
        subscription.state not in ("falling behind", "watching", "unknown")
        or rate_in - rate_acked < STILL_PER_S
    ):
        return None
    if subscription.state != "falling behind" and subscription.backlog_messages <= rate_in * _BACKLOG_S:
        return None
    each_acks = rate_acked / len(snapshot.consumers)
    more = ceil((rate_in - rate_acked) / each_acks)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence="Producers publish faster than the consumers ack, so the backlog grows.",
        evidence=(
            fact("published", rate_in, Unit.PER_SECOND),
            fact("acked", rate_acked, Unit.PER_SECOND),
            fact("acked by each consumer", each_acks, Unit.PER_SECOND),
            fact("consumers", len(snapshot.consumers), Unit.CONSUMERS),
        ),
        cures=(_cure(subscription.type, more),),
    )


def _cure(type_: str, more: int) -> Cure:
    if type_ in ("Shared", "Key_Shared"):
        noun = "consumer" if more == 1 else "consumers"
        return Cure(text=f"Add {count(more)} {noun} as fast as these, or make each one faster.")
    return Cure(
        text=f"Make the consumer faster. {type_ or 'This type'} gives everything to one consumer: to share the work,"
        " use Shared or Key_Shared, or more partitions."
    )


RULE: Final = Rule(id="too_slow", window_s=WINDOW_S, find=find)
