"""Report that messages wait and no consumer is connected."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Departure, Snapshot
from console.words.said import said

__all__ = ["RULE", "why_it_left"]

WINDOW_S: Final = 0.0
# If nothing is acked after the last consumer has left, the state is STUCK within this time.
_LEFT_S: Final = 60.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    if subscription.consumers != 0 or not subscription.backlog_messages:
        return None
    left = subscription.departure
    if snapshot.has_working_state and (left is None or snapshot.seconds_since(left.at_ms) >= _LEFT_S):
        return Finding(
            rule=RULE.id,
            severity=Severity.NOTICE,
            sentence=said(
                "No consumer is connected. If no client pulls, the subscription will soon be stuck."
            ),
            evidence=(fact(said("waiting"), subscription.backlog_messages, Unit.MESSAGES),),
            cures=(),
        )
    if left is None:
        sentence = said(
            "No consumer is connected, and none has been connected since the subscription was created."
        )
        evidence: tuple[Evidence, ...] = (
            fact(said("subscription created"), subscription.created_ms, Unit.TIME),
        )
    else:
        sentence = said(
            "No consumer is connected. {name} was the last one: {reason}.",
            name=left.name,
            reason=why_it_left(left),
        )
        evidence = (
            fact(said("left"), left.at_ms, Unit.TIME),
            fact(said("from"), left.address),
            fact(said("client"), left.client_version),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=(*evidence, fact(said("waiting"), subscription.backlog_messages, Unit.MESSAGES)),
        cures=(
            Cure(
                text=said(
                    "Start a consumer. If one should be running, compare the topic and the subscription in its"
                    " configuration with {topic} and {subscription}.",
                    topic=snapshot.topic.name,
                    subscription=subscription.name,
                )
            ),
        ),
    )


def why_it_left(left: Departure) -> str:
    """Return why a consumer left, in words that can end a sentence."""
    match left.cause:
        case "closed":
            return said("its client closed it")
        case "lost":
            return left.detail or said("its connection ended")
        case _:
            if not left.detail:
                return said("the broker closed it")
            return said("the broker closed it: {detail}", detail=left.detail)


RULE: Final = Rule(id="no_consumer", window_s=WINDOW_S, find=find)
