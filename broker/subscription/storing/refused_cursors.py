"""Keep track of the cursors that could not be stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from broker.core.errors import PersistenceFailed
from broker.core.subscription.flush_pace import REFUSED_PAUSE_MOST_S, refused_pause_s

__all__ = ["RefusedCursor", "RefusedCursors"]

C = TypeVar("C")


@dataclass(slots=True)
class RefusedCursor:
    """The consecutive failed attempts to store one cursor."""

    since_ms: int
    reason: str
    refusals: int = 0
    next_try_s: float = 0.0  # In the event loop's time

    @property
    def since(self) -> str:
        """The time of the first failed attempt, as text."""
        return f"{datetime.fromtimestamp(self.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def error(self) -> PersistenceFailed:
        """Return the error for a client that waits for a receipt of its ack."""
        return PersistenceFailed(f"this cursor has not been stored since {self.since}: {self.reason}")

    def problem(self) -> str:
        """Describe the failed attempts. Pages show the number of attempts in front of this text."""
        return (
            f"failed attempts to store the cursor, since {self.since}: {self.reason}. Delivery goes on,"
            " but messages acknowledged since then are delivered again after a restart. Vela tries again at least"
            f" every {REFUSED_PAUSE_MOST_S:.0f} s"
        )


class RefusedCursors(Generic[C]):
    """The cursors of this process that could not be stored, by subscription."""

    def __init__(self) -> None:
        self._refused: dict[C, RefusedCursor] = {}

    def __contains__(self, subscription: C) -> bool:
        return subscription in self._refused

    def __iter__(self) -> Iterator[C]:
        return iter(list(self._refused))

    def get(self, subscription: C) -> RefusedCursor | None:
        """Return the failed attempts for a subscription's cursor, or None if there are none."""
        return self._refused.get(subscription)

    def add(self, subscription: C, reason: str, *, now_ms: int, now_s: float) -> RefusedCursor:
        """Count a failed attempt, and set the time of the next attempt."""
        known = self._refused.setdefault(subscription, RefusedCursor(now_ms, reason))
        known.reason = reason
        known.refusals += 1
        known.next_try_s = now_s + refused_pause_s(known.refusals)
        return known

    def remove(self, subscription: C) -> RefusedCursor | None:
        """Forget the failed attempts for a subscription's cursor, and return them."""
        return self._refused.pop(subscription, None)

    def due(self, now_s: float) -> list[C]:
        """Return the subscriptions whose next attempt is due."""
        return [each for each, known in self._refused.items() if known.next_try_s <= now_s]

    def next_try_s(self) -> float | None:
        """Return when to try next, in the event loop's time, or None if no attempt is needed."""
        return min((known.next_try_s for known in self._refused.values()), default=None)
