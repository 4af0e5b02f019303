"""How much a plan's counts may change before the plan is applied.

An act is a change that the broker plans and then applies.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from broker.core.counted import counted
from broker.topics.rates import MEASURED_OVER_S

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["MOST_DRIFT_MESSAGES", "TYPED_ABOVE_MESSAGES", "Drift", "Standing", "more_than_planned"]

TYPED_ABOVE_MESSAGES: Final = 10_000  # An operator confirms a larger replay by typing a name
MOST_DRIFT_MESSAGES: Final = 10**15
_WITHIN_S: Final = 30  # Expected time from plan to apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The rate at which a count in a plan grows."""

    cause: Literal["acked", "published"]
    messages_per_s: float

    @property
    def messages(self) -> int:
        """Return the expected growth between plan and apply."""
        return math.ceil(self.messages_per_s * _WITHIN_S)

    def allowed_messages(self, replayed: int) -> int:
        """Return how far the count may grow beyond the plan by default."""
        if self.cause == "published":
            return 0
        if replayed > TYPED_ABOVE_MESSAGES:
            return self.messages
        return min(self.messages, TYPED_ABOVE_MESSAGES - replayed)

    def to_json(self, replayed: int) -> dict[str, object]:
        """Return the drift as JSON for a plan."""
        return {
            "cause": self.cause,
            "messages_per_s": round(self.messages_per_s, 2),
            "measured_over_s": MEASURED_OVER_S,
            "applied_within_s": _WITHIN_S,
            "messages": self.messages,
            "words": self._words(self.allowed_messages(replayed)),
        }

    def _words(self, allowed: int) -> str:
        refused = "the act is refused, with a new preview"
        if not self.messages:
            return f"no message is being {self.cause} now; if one is {self.cause} before you apply, {refused}"
        rate = f"{self.messages_per_s:.0f}" if self.messages_per_s >= 9.5 else f"{self.messages_per_s:.1g}"
        now = f"{rate} {'message a second is' if rate == '1' else 'messages a second are'} being {self.cause}"
        if self.cause == "published":
            return f"{now}; those published before you apply would be lost too, so {refused}, unless you allow them"
        more = f"up to {allowed} more {'is' if allowed == 1 else 'are'} delivered again"
        if allowed < self.messages:
            most = f"{TYPED_ABOVE_MESSAGES} in all"
            return f"{now}; {more}, {most}; beyond that {refused} that you confirm by typing the name"
        return f"{now}; {more} if you apply within {_WITHIN_S} s; beyond that {refused}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Message counts of some cursors at one moment."""

    acked_messages: int
    published_messages: int  # Messages of a topic with two cursors count twice
    count: int  # Number of cursors
    cursors: str  # Hash of the cursors' ids and versions

    @classmethod
    def of(cls, subscriptions: Iterable[Subscription]) -> Standing:
        """Return the current counts of these subscriptions."""
        found = sorted(subscriptions, key=lambda each: each.subscription_id)
        which = " ".join(f"{each.subscription_id}:{each.cursor.version}" for each in found)
        return cls(
            acked_messages=sum(each.cursor.totals.messages for each in found),
            published_messages=sum(each.log.ledgers.total_messages for each in found),
            count=len(found),
            cursors=hashlib.sha256(which.encode()).hexdigest(),
        )

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Standing:
        """Read the output of `to_json`."""
        return cls(**raw)

    def to_json(self) -> dict[str, object]:
        """Return the counts as JSON for a plan."""
        return {
            "acked_messages": self.acked_messages,
            "published_messages": self.published_messages,
            "count": self.count,
            "cursors": self.cursors,
        }

    @property
    def unacked_messages(self) -> int:
        """Return the sum of the cursors' backlogs."""
        return self.published_messages - self.acked_messages


def more_than_planned(count: int, planned: int, allowed: int, one: str, many: str) -> str:
    """Return the error text for an act whose message count has grown."""
    announced = f"the plan showed {planned}" + (f" and allowed for {allowed} more" if allowed else "")
    return f"{counted(count, one, many)}, {announced}; look at the new preview"
