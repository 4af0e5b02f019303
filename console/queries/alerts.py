"""Alert rules, alerts that fire now, and alerts that have cleared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext

from broker.acts.alerts import condition, matches_parameters, matches_statement, value_words
from console.queries.database import fetch, fetch_text
from console.queries.rights import Scope

__all__ = [
    "FiringRow",
    "MatchRow",
    "RuleRow",
    "alert_rule",
    "alert_rules",
    "cleared_alerts",
    "firing_alerts",
    "matches",
]

_RULES: Final = 1000
PAGE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule and its latest notification."""

    id: int
    name: str
    measure: str
    threshold: int | None
    within_ms: int | None
    for_ms: int
    namespaces: str
    topics: str
    subscriptions: str
    severity: str
    has_webhook: bool
    email: str
    silent_until: datetime | None
    who: str
    evaluated_ms: int | None
    told_at: datetime | None
    sent_at: datetime | None
    error: str | None
    next_at: datetime | None
    attempts: int | None
    firing: int

    @property
    def condition(self) -> str:
        """The condition in words."""
        return condition(self.measure, self.threshold, self.within_ms, self.for_ms, say=gettext)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRow:
    """A rule's alert about a subscription, a topic or the broker."""

    id: int
    rule_id: int | None
    rule_name: str
    severity: str
    measure: str
    topic_name: str
    subscription_name: str
    value: int
    over_since_ms: int
    fired_ms: int
    cleared_ms: int | None

    @property
    def value_words(self) -> str:
        """The last value over the limit, with its unit."""
        return value_words(self.measure, self.value, say=gettext)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRow:
    """A subscription, a topic or the broker that is over a rule's limit now."""

    rule_id: int
    topic_id: int
    subscription_id: int
    namespace_id: int | None
    topic_name: str
    subscription_name: str
    value: int
    since_ms: int


def alert_rules() -> list[RuleRow]:
    """Return the first 1,000 rules by name."""
    return fetch(RuleRow, "alerts", "rules", {"id": None, "limit": _RULES})


def alert_rule(rule_id: int) -> RuleRow | None:
    """Return the rule with this id, or None."""
    return next(iter(fetch(RuleRow, "alerts", "rules", {"id": rule_id, "limit": 1})), None)


def firing_alerts(scope: Scope, *, before: int | None = None, limit: int = PAGE) -> list[FiringRow]:
    """Return a page of the alerts that fire now, newest first.

    If another page follows, the list has `limit` + 1 rows.
    """
    return fetch(FiringRow, "alerts", "firing", {"before": before, "limit": limit + 1, **scope.of_topics})


def cleared_alerts(
    scope: Scope, *, before: tuple[int, int] | None = None, limit: int = PAGE
) -> list[FiringRow]:
    """Return a page of cleared alerts, most recently cleared first.

    `before` is the `cleared_ms` and the id of the last row on the previous page. If another page follows, the list
    has `limit` + 1 rows.
    """
    before_ms, before_id = before or (None, None)
    parameters = {"before_ms": before_ms, "before": before_id, "limit": limit + 1, **scope.of_topics}
    return fetch(FiringRow, "alerts", "history", parameters)


def matches(rule: Mapping[str, object], now_ms: int) -> list[MatchRow]:
    """Return everything that is over a rule's limit now."""
    return fetch_text(MatchRow, matches_statement(), matches_parameters(rule, now_ms))
