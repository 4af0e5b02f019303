"""Estimate how long a backlog takes to drain with another number of consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from console.diagnosis.pace import SHARED, Connected, are_known, idle_among, starved_among
from console.diagnosis.snapshot import STILL_PER_S
from console.words.numerals import count, rate, span
from console.words.said import Said, said, said_many

__all__ = ["Choice", "WhatIf", "what_if"]

_LEAST_CHOICES: Final = 10
_MOST_CHOICES: Final = 40
_FEWER: Final = 9
_NOISE: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A number of consumers and their effect on the backlog."""

    consumers: int
    drain_s: float | None  # None if the backlog does not drain
    grows_per_s: float

    @property
    def words(self) -> Said:
        """A sentence about the effect on the backlog."""
        n, number = self.consumers, count(self.consumers)
        if self.drain_s is not None:
            return said_many(
                "With {number} consumer: about {time} to go.",
                "With {number} consumers: about {time} to go.",
                n=n,
                number=number,
                time=span(self.drain_s),
            )
        if self.grows_per_s:
            return said_many(
                "With {number} consumer: the backlog grows by {rate}.",
                "With {number} consumers: the backlog grows by {rate}.",
                n=n,
                number=number,
                rate=rate(self.grows_per_s),
            )
        return said_many(
            "With {number} consumer: the backlog hardly changes.",
            "With {number} consumers: the backlog hardly changes.",
            n=n,
            number=number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The estimates for consecutive numbers of consumers."""

    working: int
    needed: int  # The smallest number that drains the backlog, even if `choices` lacks this number
    each_acks_per_s: float
    choices: tuple[Choice, ...]

    def chosen(self, asked: int | None) -> Choice:
        """Return the choice nearest to `asked`. If `asked` is None, use the larger of `working` and `needed`."""
        number = max(self.working, self.needed) if asked is None else asked
        first, last = self.choices[0].consumers, self.choices[-1].consumers
        return self.choices[min(max(number, first), last) - first]


def what_if(
    *,
    type_: str,
    backlog_messages: int,
    rate_in: float | None,
    rate_acked: float | None,
    drain_s: int | None,
    connected: int,
    consumers: Sequence[Connected],
    now_ms: int,
) -> WhatIf | Said:
    """Estimate how long the backlog takes to drain with other numbers of consumers.

    If no estimate is possible, return a sentence that says why. Rates are per second.
    `connected` counts all consumers, but `consumers` may list only some of them.
    `drain_s` is the broker's estimate for the present number of consumers.
    """
    if type_ and type_ not in SHARED:
        return said(
            "No estimate: this type of subscription gives everything to one consumer, so more consumers do not help."
        )
    if not consumers:
        return said("No estimate: no consumer is connected, so how fast a consumer works is not known.")
    if rate_in is None or rate_acked is None:
        return said("No estimate yet: the broker has not reported the rates.")
    if not are_known(consumers, now_ms):
        return said(
            "No estimate yet: a consumer connected less than 20 s ago, and how fast it works is not known."
        )
    if starved_among(consumers, type_, now_ms):
        return said(
            "No estimate: a consumer asks for messages but got none for 20 s, so more consumers would not help."
        )
    if drain_s:
        rate_acked = rate_in + backlog_messages / drain_s
    working = max(connected, len(consumers)) - len(idle_among(consumers, type_, now_ms))
    each = rate_acked / working
    if each < STILL_PER_S:
        return said("No estimate: hardly anything is acked, so how fast a consumer works is not known.")
    noise = _NOISE * max(rate_in, each)
    needed = floor((rate_in + noise) / each) + 1
    first = max(1, working - _FEWER)
    last = 2 * max(working, needed)
    choices = min(max(last - first + 1, _LEAST_CHOICES), _MOST_CHOICES)
    return WhatIf(
        working=working,
        needed=needed,
        each_acks_per_s=each,
        choices=tuple(
            _choice(number, backlog_messages, number * each - rate_in, noise)
            for number in range(first, first + choices)
        ),
    )


def _choice(consumers: int, backlog_messages: int, drains_per_s: float, noise_per_s: float) -> Choice:
    return Choice(
        consumers=consumers,
        drain_s=backlog_messages / drains_per_s if drains_per_s > noise_per_s else None,
        grows_per_s=-drains_per_s if drains_per_s < -noise_per_s else 0.0,
    )
