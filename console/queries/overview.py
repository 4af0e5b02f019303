"""Numbers that the overview page shows."""

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
_LOOKED_AT = 300
POISONED = 3
LAST_LISTED = SubscriptionState.DRAINING.value
_NEARLY_FULL = 0.8
_FULL = 0.95
COUNTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRow:
    """A subscription with a problem, and the numbers that the broker last reported."""

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
    subscriptions: int  # At most COUNTED + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConnections:
    """Connections of all programs to the PostgreSQL server."""

    in_use: int
    most: int  # max_connections minus the reserved connections
    version: str

    @property
    def tone(self) -> Tone:
        """How close the connections are to the limit."""
        share = self.in_use / max(self.most, 1)
        return "bad" if share >= _FULL else "warn" if share >= _NEARLY_FULL else "good"


def database_connections() -> DatabaseConnections:
    """Count the connections of all programs to the PostgreSQL server."""
    return fetch(DatabaseConnections, "overview", "connections", {})[0]


def worst_subscriptions(scope: Scope) -> list[WorstRow]:
    """Return at most 12 subscriptions that are stuck, falling behind, paused or draining.

    The worst state comes first. The query reads only the 300 subscriptions with the worst states.
    """
    return fetch(
        WorstRow,
        "overview",
        "worst",
        {"last_state": LAST_LISTED, "looked_at": _LOOKED_AT, "limit": WORST, **scope.of_topics},
    )


def poisoned_subscriptions(scope: Scope, listed: Sequence[int]) -> list[WorstRow]:
    """Return at most 3 subscriptions whose first unacked entry was redelivered at least 3 times.

    Leaves out the subscriptions in `listed`.
    """
    return fetch(
        WorstRow, "overview", "poisoned", {"listed": list(listed), "limit": POISONED, **scope.of_topics}
    )


def state_counts(scope: Scope) -> list[StateCount]:
    """Count the subscriptions in each state. The worst state comes first."""
    return fetch(StateCount, "overview", "states", {"limit": COUNTED + 1, **scope.of_topics})
