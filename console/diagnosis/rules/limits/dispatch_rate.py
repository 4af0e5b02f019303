"""A dispatch rate holds delivery back."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription, rates = snapshot.subscription, snapshot.limits.dispatch_rates
    if not subscription.is_rate_limited or not rates or snapshot.ready_entries == 0:
        return None
    names = " and ".join(f"{each.policy} of the {each.set_on}" for each in rates)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence=f"Delivery is at its limit: {names}.",
        evidence=(
            *(
                fact(f"{each.policy}, set on the {each.set_on}", each.per_second, Unit.PER_SECOND)
                for each in rates
            ),
            fact("delivered", subscription.message_rate_out or 0.0, Unit.PER_SECOND),
        ),
        cures=(Cure(text=f"Raise or unset {rates[0].policy}: `vela policies set`."),),
    )


RULE: Final = Rule(id="dispatch_rate", window_s=WINDOW_S, find=find)
