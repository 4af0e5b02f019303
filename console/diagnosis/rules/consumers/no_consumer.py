"""Nobody consumes: messages wait and no consumer is connected."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Departure, Snapshot

__all__ = ["RULE", "why_it_left"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    if subscription.consumers != 0 or not subscription.backlog_messages:
        return None
    left = subscription.departure
    if left is None:
        sentence = "No consumer is connected, and none has been connected since the subscription was made."
        evidence: tuple[Evidence, ...] = (fact("subscription made", subscription.created_ms, Unit.TIME),)
    else:
        sentence = f"No consumer is connected. {left.name} was the last one: {why_it_left(left)}."
        evidence = (
            fact("left", left.at_ms, Unit.TIME),
            fact("from", left.address),
            fact("client", left.client_version),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=sentence,
        evidence=(*evidence, fact("waiting", subscription.backlog_messages, Unit.MESSAGES)),
        cures=(
            Cure(
                text="Start a consumer. If one should be running, compare the topic and the subscription in its"
                f" configuration with {snapshot.topic.name} and {subscription.name}."
            ),
        ),
    )


def why_it_left(left: Departure) -> str:
    """Return why a consumer left, as the end of a sentence."""
    match left.cause:
        case "closed":
            return "its client closed it"
        case "lost":
            return left.detail or "its connection ended"
        case _:
            return f"the broker closed it: {left.detail}" if left.detail else "the broker closed it"


RULE: Final = Rule(id="no_consumer", window_s=WINDOW_S, find=find)
