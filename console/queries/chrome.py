"""Numbers that every page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.conf import broker_settings
from console.queries.database import fetch
from console.queries.rights import Scope
from console.words.troubles import Signs, Trouble, troubles_of

__all__ = ["Chrome", "chrome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chrome(Signs):
    """Signs of life of Vela's processes, and the acts (operators' changes) that wait for the broker."""

    waiting_acts: Mapping[str, int]  # Keyed by namespace; the empty string means no namespace

    @property
    def troubles(self) -> dict[Trouble, int | None]:
        """The current problems of Vela's processes."""
        return troubles_of(self, tick_ms=broker_settings().tick_ms)

    def waiting_in(self, scope: Scope) -> int:
        """Return how many acts in scope wait for the broker."""
        return sum(acts for name, acts in self.waiting_acts.items() if scope.has_acts_of(name))

    @property
    def broker_runs(self) -> bool:
        """Whether a broker gave a sign of life in the last 5 s and was not stopped."""
        return self.troubles.keys().isdisjoint(
            {Trouble.NO_BROKER, Trouble.BROKER_STOPPED, Trouble.BROKER_SILENT}
        )


def chrome() -> Chrome:
    """Read the numbers from the database."""
    return fetch(Chrome, "chrome", "chrome", {})[0]
