"""Cursors that the database refuses for a reason of its own: a check constraint, a value out of range.

Such a cursor leaves the common flush and is tried alone, at a growing interval, until the database takes it again.
Meanwhile its subscription goes on: memory is right, only a restart would bring back what was acked since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from broker.core.errors import PersistenceFailed
from broker.core.subscription.flush_pace import REFUSED_PAUSE_MOST_S, refused_pause_s

__all__ = ["RefusedCursor", "RefusedCursors"]

C = TypeVar("C")  # a subscription


@dataclass(slots=True)
class RefusedCursor:
    """What is known of one refusal; `next_try_s` is a time of the event loop's clock."""

    since_ms: int
    reason: str
    refusals: int = 0
    next_try_s: float = 0.0

    @property
    def since(self) -> str:
        """The time of the first refusal, in words."""
        return f"{datetime.fromtimestamp(self.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def error(self) -> PersistenceFailed:
        """What answers the receipt of an ack."""
        return PersistenceFailed(f"this cursor could not be stored since {self.since}: {self.reason}")

    def problem(self) -> str:
        """What an operator reads on the subscription's page, behind the number of attempts."""
        return (
            f"failed attempts to store the cursor, since {self.since}: {self.reason}. Delivery goes on,"
            " but messages acknowledged since then are delivered again after a restart. Vela tries again at most"
            f" every {REFUSED_PAUSE_MOST_S:.0f} s"
        )


class RefusedCursors(Generic[C]):
    """The refused cursors of this process, by their subscriptions."""

    def __init__(self) -> None:
        self._refused: dict[C, RefusedCursor] = {}

    def __contains__(self, subscription: C) -> bool:
        return subscription in self._refused

    def __iter__(self) -> Iterator[C]:
        return iter(list(self._refused))

    def get(self, subscription: C) -> RefusedCursor | None:
        """Return what is known of a refused cursor; None for any other."""
        return self._refused.get(subscription)

    def add(self, subscription: C, reason: str, *, now_ms: int, now_s: float) -> RefusedCursor:
        """Count a refusal and set the time of the next attempt."""
        known = self._refused.setdefault(subscription, RefusedCursor(now_ms, reason))
        known.reason = reason
        known.refusals += 1
        known.next_try_s = now_s + refused_pause_s(known.refusals)
        return known

    def remove(self, subscription: C) -> RefusedCursor | None:
        """The cursor is stored, or nobody's any more. Return what was known of it."""
        return self._refused.pop(subscription, None)

    def due(self, now_s: float) -> list[C]:
        """Return the cursors whose next attempt is due."""
        return [each for each, known in self._refused.items() if known.next_try_s <= now_s]

    def next_try_s(self) -> float | None:
        """Return when the next attempt is due; None when no cursor is refused."""
        return min((known.next_try_s for known in self._refused.values()), default=None)
