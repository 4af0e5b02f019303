"""The numbers of the overview: subscriptions with problems, the count of each state, and database connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.models import SubscriptionState
from console.queries.database import fetch
from console.queries.rights import Scope
from console.words.subscriptions import Tone

__all__ = [
    "COUNTED",
    "LAST_LISTED",
    "WORST",
    "DatabaseConnections",
    "StateCount",
    "WorstRow",
    "database_connections",
    "poisoned_subscriptions",
    "state_counts",
    "worst_subscriptions",
]

WORST = 12
_LOOKED_AT = 300  # subscriptions among which the worst are chosen
POISONED = 3
LAST_LISTED = SubscriptionState.DRAINING.value  # the last state that the list shows
_NEARLY_FULL = 0.8  # of the connections that PostgreSQL allows
_FULL = 0.95
COUNTED = 1000  # subscriptions of one state; beyond that the page says "more than"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRow:
    """A subscription with a problem. Its numbers are the broker's last report."""

    id: int
    name: str
    topic_id: int
    topic_name: str
    backlog_messages: int
    state: int
    state_since_ms: int
    drain_s: int | None
    message_rate_in: float | None
    message_rate_acked: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """The number of subscriptions in a state."""

    state: int
    subscriptions: int  # at most COUNTED + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConnections:
    """Connections of clients to the PostgreSQL server, Vela's and others'."""

    in_use: int
    most: int  # without those that are reserved for administrators
    version: str  # of PostgreSQL

    @property
    def tone(self) -> Tone:
        """Return bad if hardly any connection is left, warn if few are, else good."""
        share = self.in_use / max(self.most, 1)
        return "bad" if share >= _FULL else "warn" if share >= _NEARLY_FULL else "good"


def database_connections() -> DatabaseConnections:
    """Count the clients' connections to the PostgreSQL server. One query."""
    return fetch(DatabaseConnections, "overview", "connections", {})[0]


def worst_subscriptions(scope: Scope) -> list[WorstRow]:
    """Return at most 12 subscriptions that are stuck, falling behind, paused or draining. One query.

    The worst state comes first. Within a state, the subscription with the most waiting messages comes first and, among
    equals, the one that has been in the state for longest. The query considers only 300 subscriptions: the first by
    state and, within a state, those that have been in it for longest.
    """
    return fetch(
        WorstRow,
        "overview",
        "worst",
        {"last_state": LAST_LISTED, "looked_at": _LOOKED_AT, "limit": WORST, **scope.of_topics},
    )


def poisoned_subscriptions(scope: Scope, listed: Sequence[int]) -> list[WorstRow]:
    """Return up to 3 subscriptions outside `listed` whose first message was redelivered at least 3 times. One query."""
    return fetch(
        WorstRow, "overview", "poisoned", {"listed": list(listed), "limit": POISONED, **scope.of_topics}
    )


def state_counts(scope: Scope) -> list[StateCount]:
    """Count the subscriptions of each state, the worst first. One query."""
    return fetch(StateCount, "overview", "states", {"limit": COUNTED + 1, **scope.of_topics})
