"""Count the entries in flight at each consumer and in each part of the cursor map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["COLOURS", "Flight", "Run", "Share", "counts", "shares_of", "unacked"]

COLOURS: Final = 6  # At most this many consumers get a colour of their own

Run = tuple[int, int]  # Indexes of the first and the last entry of an unbroken range


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A delivery that waits for an ack. `first` and `last` are indexes of entries."""

    consumer: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The entries in flight at one consumer, or at all the consumers that share colour 0."""

    consumer: str
    colour: int
    runs: Sequence[Run]
    entries: int


def unacked(flights: Iterable[Flight], acked: Sequence[Run]) -> Iterator[Flight]:
    """Yield the unacked parts of the deliveries. `flights` and `acked` must be sorted."""
    at = 0
    for flight in flights:
        while at < len(acked) and acked[at][1] < flight.first:
            at += 1
        first, number = flight.first, at
        while number < len(acked) and acked[number][0] <= flight.last:
            if first < acked[number][0]:
                yield replace(flight, first=first, last=acked[number][0] - 1)
            first = acked[number][1] + 1
            number += 1
        if first <= flight.last:
            yield replace(flight, first=first)


def shares_of(flights: Sequence[Flight]) -> list[Share]:
    """Group deliveries by consumer name, the largest group first.

    All consumers without a colour of their own share the last group, which has colour 0. In each group, deliveries
    keep their order.
    """
    entries: Counter[str] = Counter()
    for flight in flights:
        entries[flight.consumer] += flight.last - flight.first + 1
    colours = {name: number for number, (name, _) in enumerate(entries.most_common(COLOURS), start=1)}
    groups: dict[int, list[Flight]] = {}
    for flight in flights:
        groups.setdefault(colours.get(flight.consumer, 0), []).append(flight)
    names = {number: name for name, number in colours.items()}
    order = [number for number in (*names, 0) if number in groups]
    return [
        Share(
            consumer=names.get(number, ""),
            colour=number,
            runs=[(flight.first, flight.last) for flight in groups[number]],
            entries=sum(flight.last - flight.first + 1 for flight in groups[number]),
        )
        for number in order
    ]


def counts(runs: Iterable[Run], edges: Sequence[int]) -> list[int]:
    """Count the entries of `runs` in each part of the cursor map. `runs` must be sorted.

    `edges` has the first index of each part, and then the index after the last part.
    """
    found = [0] * (len(edges) - 1)
    at = 0
    for first, last in runs:
        low, high = max(first, edges[0]), min(last + 1, edges[-1])
        while at < len(found) - 1 and edges[at + 1] <= low:
            at += 1
        number = at
        while low < high and number < len(found):
            step = min(high, edges[number + 1])
            found[number] += max(step - max(low, edges[number]), 0)
            low = max(low, step)
            number += 1
    return found
