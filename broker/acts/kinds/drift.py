"""How a plan's counts change before the plan is applied, and how much change an apply accepts by default."""

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

TYPED_ABOVE_MESSAGES: Final = 10_000  # an operator confirms a larger replay by typing a name
MOST_DRIFT_MESSAGES: Final = 10**15  # the largest drift that a request may allow
_WITHIN_S: Final = 30  # a plan is expected to be applied within this time


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How fast a plan's count grows: acks add to the count of a reset, publishing adds to the count of a delete."""

    cause: Literal["acked", "published"]
    messages_per_s: float

    @property
    def messages(self) -> int:
        """Return how many messages are expected to be acked, or published, before the plan is applied."""
        return math.ceil(self.messages_per_s * _WITHIN_S)

    def allowed_messages(self, replayed: int) -> int:
        """Return how many more messages than planned an apply accepts by default.

        For acks, this is the expected number. But if the planned replay needs no typed confirmation, the number is
        limited, so that the replay needs none even with this drift. For messages that a delete would lose, the number
        is 0, because no preview has shown them.
        """
        if self.cause == "published":
            return 0
        if replayed > TYPED_ABOVE_MESSAGES:
            return self.messages
        return min(self.messages, TYPED_ABOVE_MESSAGES - replayed)

    def to_json(self, replayed: int) -> dict[str, object]:
        """Return the drift as a plan stores it."""
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
    """The counts of some cursors at one moment. Two standings show how much was acked and published in between."""

    acked_messages: int  # sum over the cursors, since each topic began
    published_messages: int  # sum over the cursors: a topic with two cursors counts twice
    count: int  # number of cursors
    cursors: str  # hash of their ids and versions; acks do not change it

    @classmethod
    def of(cls, subscriptions: Iterable[Subscription]) -> Standing:
        """Return the current counts of these subscriptions, from memory."""
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
        """Return the standing that `to_json` has written."""
        return cls(**raw)

    def to_json(self) -> dict[str, object]:
        """Return the standing as a plan stores it."""
        return {
            "acked_messages": self.acked_messages,
            "published_messages": self.published_messages,
            "count": self.count,
            "cursors": self.cursors,
        }

    @property
    def unacked_messages(self) -> int:
        """Return the sum of these cursors' backlogs."""
        return self.published_messages - self.acked_messages


def more_than_planned(count: int, planned: int, allowed: int, one: str, many: str) -> str:
    """Return why an act whose count has grown is refused."""
    announced = f"the plan showed {planned}" + (f" and allowed for {allowed} more" if allowed else "")
    return f"{counted(count, one, many)}, {announced}; look at the new preview"
