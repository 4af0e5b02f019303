"""Report that delivery has reached its rate limit."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0
_PLACES: Final = {"namespace": said("namespace"), "topic": said("topic")}


def find(snapshot: Snapshot) -> Finding | None:
    subscription, rates = snapshot.subscription, snapshot.limits.dispatch_rates
    if not subscription.is_rate_limited or not rates or snapshot.ready_entries == 0:
        return None
    first, *others = [
        said("{policy} of the {place}", policy=each.policy, place=_PLACES[each.set_on]) for each in rates
    ]
    names = first
    for other in others:
        names = said("{names} and {other}", names=names, other=other)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence=said("Delivery is at its limit: {names}.", names=names),
        evidence=(
            *(
                fact(
                    said(
                        "{policy}, set on the {place}",
                        policy=each.policy,
                        place=_PLACES[each.set_on],
                    ),
                    each.per_second,
                    Unit.PER_SECOND,
                )
                for each in rates
            ),
            fact(said("delivered"), subscription.message_rate_out or 0.0, Unit.PER_SECOND),
        ),
        cures=(Cure(text=said("Raise or unset {policy}: `vela policies set`.", policy=rates[0].policy)),),
    )


RULE: Final = Rule(id="dispatch_rate", window_s=WINDOW_S, find=find)
