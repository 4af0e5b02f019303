"""How a plan's counts change until it is applied, and how much of that an apply may take."""

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

__all__ = ["TYPED_ABOVE_MESSAGES", "Drift", "Standing", "more_than_planned"]

TYPED_ABOVE_MESSAGES: Final = 10_000  # more than that comes again only where somebody typed a name
_WITHIN_S: Final = 30  # a plan is expected to be applied in this time


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What makes the count of a plan grow: acks that a reset forgets, or messages that a delete throws away."""

    cause: Literal["acked", "published"]
    messages_per_s: float

    @property
    def messages(self) -> int:
        """How many are expected until the plan is applied."""
        return math.ceil(self.messages_per_s * _WITHIN_S)

    def allowed_messages(self, replayed: int) -> int:
        """How many more than planned an apply may take by default.

        Acks: what is expected, but never so much that an act that needs no typed name becomes one that does. Messages
        that a delete would throw away unseen: none.
        """
        if self.cause == "published":
            return 0
        if replayed > TYPED_ABOVE_MESSAGES:
            return self.messages
        return min(self.messages, TYPED_ABOVE_MESSAGES - replayed)

    def to_json(self, replayed: int) -> dict[str, object]:
        """As a plan keeps it."""
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
            return f"no message is being {self.cause} just now; if one is before you apply, {refused}"
        rate = f"{self.messages_per_s:.0f}" if self.messages_per_s >= 10 else f"{self.messages_per_s:.1g}"
        now = f"{rate} {'message a second is' if rate == '1' else 'messages a second are'} being {self.cause}"
        if self.cause == "published":
            return f"{now}; what comes before you apply would be lost too, so unless you allow it {refused}"
        more = f"up to {allowed} more {'comes' if allowed == 1 else 'come'} again"
        if allowed < self.messages:
            return f"{now}; {more}, {TYPED_ABOVE_MESSAGES} in all; beyond that {refused}, which asks for the name"
        return f"{now}; {more} if you apply within {_WITHIN_S} s; beyond that {refused}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where cursors stood when a plan was made: what was acked and published since is the difference to a later one."""

    acked_messages: int  # over these cursors, since their topics began
    published_messages: int  # of their topics, once for each cursor
    count: int  # of cursors
    cursors: str  # which, and how often each was moved

    @classmethod
    def of(cls, subscriptions: Iterable[Subscription]) -> Standing:
        """As it is in memory now."""
        found = sorted(subscriptions, key=lambda each: each.subscription_id)
        which = " ".join(f"{each.subscription_id}:{each.cursor.version}" for each in found)
        return cls(
            acked_messages=sum(each.cursor.totals.messages for each in found),
            published_messages=sum(each.topic.log.ledgers.total_messages for each in found),
            count=len(found),
            cursors=hashlib.sha256(which.encode()).hexdigest(),
        )

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Standing:
        """The reverse of `to_json`."""
        return cls(**raw)

    def to_json(self) -> dict[str, object]:
        """As a plan keeps it."""
        return {
            "acked_messages": self.acked_messages,
            "published_messages": self.published_messages,
            "count": self.count,
            "cursors": self.cursors,
        }

    @property
    def unacked_messages(self) -> int:
        """The backlogs of these cursors together."""
        return self.published_messages - self.acked_messages


def more_than_planned(count: int, planned: int, allowed: int, one: str, many: str) -> str:
    """Why an act is refused whose count has grown."""
    announced = f"the plan showed {planned}" + (f" and allowed for {allowed} more" if allowed else "")
    return f"{counted(count, one, many)}, {announced}; look at the new preview"
