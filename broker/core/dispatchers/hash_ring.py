"""A consistent hash ring: owners have points on it, and what lies between two points belongs to the second one's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SLOTS, SlotRange
from vela.wire.key_hash import murmur3_32

__all__ = ["DEFAULT_POINTS", "HashRing", "ring_choice"]

DEFAULT_POINTS: Final = 100  # of one owner


def ring_choice(names: Mapping[str, DispatchConsumer], key: str) -> DispatchConsumer:
    """The consumer on whose stretch of the ring `key` falls: the same names give the same answer at any time.

    Raises ValueError without names.
    """
    if not names:
        raise ValueError("a ring without points chooses nobody")
    ring = sorted(
        (murmur3_32(f"{name}{number}".encode()), name) for name in names for number in range(DEFAULT_POINTS)
    )
    at = bisect_left(ring, (murmur3_32(key.encode()), ""))
    return names[ring[at % len(ring)][1]]


class HashRing:
    """A `SlotSelector` for AUTO_SPLIT: each consumer has `points` places among the slots, found by its name.

    A newcomer takes slots from the others, a leaver's slots go to the others, and no other slot moves. Consumers of
    one name are told apart by the lowest number that is free, so that each has places of its own.
    """

    def __init__(self, points: int = DEFAULT_POINTS) -> None:
        self._points_each = points
        self._labels: dict[DispatchConsumer, str] = {}
        self._at: dict[int, list[tuple[str, DispatchConsumer]]] = {}  # point → who has it, by label
        self._points: list[int] = []
        self._owners: list[DispatchConsumer] = []  # of each point

    def select(self, slot: int) -> DispatchConsumer | None:
        """The owner of the first point at or after the slot, round the ring."""
        points = self._points
        if not points:
            return None
        at = bisect_left(points, slot)
        return self._owners[at if at < len(points) else 0]

    def add(self, consumer: DispatchConsumer) -> None:
        """See `SlotSelector`."""
        if consumer in self._labels:
            return
        label = self._labels[consumer] = self._free_label(consumer.name)
        for point in self._points_of(label):
            sharers = self._at.setdefault(point, [])
            if (label, consumer) not in sharers:
                sharers.append((label, consumer))
                sharers.sort(key=lambda sharer: sharer[0])
        self._arrange()

    def remove(self, consumer: DispatchConsumer) -> None:
        """See `SlotSelector`."""
        label = self._labels.pop(consumer, None)
        if label is None:
            return
        for point in set(self._points_of(label)):
            self._at[point].remove((label, consumer))
            if not self._at[point]:
                del self._at[point]
        self._arrange()

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """See `SlotSelector`."""
        found: list[SlotRange] = []
        first = 0
        for point, owner in zip([*self._points, SLOTS - 1], [*self._owners, *self._owners[:1]], strict=True):
            if owner is consumer and point >= first:
                if found and found[-1].last == first - 1:
                    found[-1] = SlotRange(found[-1].first, point)
                else:
                    found.append(SlotRange(first, point))
            first = point + 1
        return tuple(found)

    def _free_label(self, name: str) -> str:
        taken = set(self._labels.values())
        number = 0
        while (label := f"{name}\0{number}") in taken:
            number += 1
        return label

    def _points_of(self, label: str) -> list[int]:
        return [murmur3_32(f"{label}\0{number}".encode()) % SLOTS for number in range(self._points_each)]

    def _arrange(self) -> None:
        self._points = sorted(self._at)
        self._owners = [self._at[point][0][1] for point in self._points]
