"""Report that the broker ended a connection because the client is too old for a message in the topic."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 60.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    left = subscription.departure
    if left is None or left.cause != "incompatible" or not subscription.backlog_messages:
        return None
    if subscription.consumers and snapshot.seconds_since(left.at_ms) > WINDOW_S:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.STOPPED,
        sentence=said(
            "The client of {name} is too old for a message in this topic, so the broker ended its"
            " connection.",
            name=left.name,
        ),
        evidence=(
            fact(said("what happened"), left.detail),
            fact(said("client"), left.client_version),
            fact(said("from"), left.address),
            fact(said("when"), left.at_ms, Unit.TIME),
        ),
        cures=(
            Cure(
                text=said(
                    "Update the client library. Until then the topic's producers must send without batches."
                )
            ),
            Cure(text=said("Look at the message"), block="next"),
        ),
    )


RULE: Final = Rule(id="incompatible_client", window_s=WINDOW_S, find=find)
