"""Count the problems of a subscription, for the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["problems"]


def problems(subscription: Subscription) -> dict[str, int]:
    """Return the problems since the topic was loaded, and how often each occurred."""
    counters = subscription.counters
    found = {
        f"messages that consumers discarded: {reason}": count
        for reason, count in counters.validation_errors.items()
    }
    if counters.invalid_acks:
        found["acks of ids that are not stored"] = counters.invalid_acks
    if counters.ignored_acks:
        kind = subscription.type
        fault = " of more than one id" if kind.single_active else f", which {kind.value} does not have"
        found[f"cumulative acks{fault}"] = counters.ignored_acks
    refused = subscription.refusal
    if refused is not None:
        found[refused.problem()] = refused.refusals
    return found | counters.option_warnings
