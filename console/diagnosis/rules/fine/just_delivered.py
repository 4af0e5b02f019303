"""Report that it is too early to judge, because consumers were active a moment ago."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE", "WINDOW_S"]

# `nothing_acked` and `unexplained` use the same window, because they apply only if this rule does not.
WINDOW_S: Final = 20.0


def find(snapshot: Snapshot) -> Finding | None:
    consumers = snapshot.consumers
    if not consumers or snapshot.subscription.state == "stuck":
        return None
    latest_ms = max(each.last_sign_ms for each in consumers)
    if snapshot.seconds_since(latest_ms) >= WINDOW_S:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.FINE,
        sentence=said("Consumers were active a moment ago, and nothing looks wrong so far."),
        evidence=(
            fact(said("last request, delivery or ack"), latest_ms, Unit.TIME),
            fact(said("in flight"), snapshot.subscription.in_flight_messages or 0, Unit.MESSAGES),
        ),
    )


RULE: Final = Rule(id="just_delivered", window_s=WINDOW_S, find=find)
