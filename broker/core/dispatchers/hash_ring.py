"""A consistent hash ring.

Each consumer owns points on the ring. A place between two points belongs to the owner of the next point.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SLOTS, SlotRange
from vela.wire.key_hash import murmur3_32

__all__ = ["DEFAULT_POINTS", "HashRing", "ring_choice"]

DEFAULT_POINTS: Final = 100  # Points per consumer


def ring_choice(names: Mapping[str, DispatchConsumer], key: str) -> DispatchConsumer:
    """Choose a consumer by consistent hashing of `key`. Raises ValueError if `names` is empty.

    Does not use `HashRing`, because building a ring is slow.
    """
    if not names:
        raise ValueError("a hash ring needs at least one consumer")
    start = murmur3_32(key.encode())

    def first_point(name: str) -> tuple[bool, int, str]:
        points = _points_of_name(name)
        at = bisect_left(points, start)
        return at == len(points), points[at % len(points)], name

    return names[min(map(first_point, names))[-1]]


@lru_cache(maxsize=4096)
def _points_of_name(name: str) -> Sequence[int]:
    return array("Q", sorted(murmur3_32(f"{name}{number}".encode()) for number in range(DEFAULT_POINTS)))


class HashRing:
    """Maps hash slots to consumers for AUTO_SPLIT.

    A label is a consumer's name plus a number. The ring gives different labels to consumers with equal names.
    """

    def __init__(self, points: int = DEFAULT_POINTS) -> None:
        self._points_each = points
        self._labels: dict[DispatchConsumer, str] = {}
        self._at: dict[int, list[tuple[str, DispatchConsumer]]] = {}
        self._points: list[int] = []  # Ascending
        self._owners: list[DispatchConsumer] = []  # Same order as `_points`

    def select(self, slot: int) -> DispatchConsumer | None:
        """Return the owner of the first point at or after `slot`, or None if the ring is empty."""
        points = self._points
        if not points:
            return None
        at = bisect_left(points, slot)
        return self._owners[at if at < len(points) else 0]

    def add(self, consumer: DispatchConsumer) -> None:
        """Add a consumer's points. Safe to repeat."""
        if consumer in self._labels:
            return
        label = self._labels[consumer] = self._free_label(consumer.name)
        for point in self._points_of(label):
            at, sharers = bisect_left(self._points, point), self._at.get(point)
            if sharers is None:
                self._at[point] = [(label, consumer)]
                self._points.insert(at, point)
                self._owners.insert(at, consumer)
            else:
                insort(sharers, (label, consumer), key=lambda sharer: sharer[0])
                self._owners[at] = sharers[0][1]

    def remove(self, consumer: DispatchConsumer) -> None:
        """Remove a consumer's points. Safe to repeat."""
        label = self._labels.pop(consumer, None)
        if label is None:
            return
        for point in self._points_of(label):
            at, sharers = bisect_left(self._points, point), self._at[point]
            sharers.remove((label, consumer))
            if sharers:
                self._owners[at] = sharers[0][1]
            else:
                del self._at[point], self._points[at], self._owners[at]

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """Return the slots that the consumer owns, in ascending order."""
        label, points = self._labels.get(consumer), self._points
        if label is None:
            return ()
        places = [bisect_left(points, point) for point in sorted(self._points_of(label))]
        owned = [at for at in places if self._owners[at] is consumer]
        stretches = [(points[at - 1] + 1 if at else 0, points[at]) for at in owned]
        if owned and not owned[0] and points[-1] < SLOTS - 1:
            # The owner of the first point also owns the slots after the last point.
            stretches.append((points[-1] + 1, SLOTS - 1))
        found: list[SlotRange] = []
        for first, last in stretches:
            if found and found[-1].last == first - 1:
                found[-1] = SlotRange(found[-1].first, last)
            else:
                found.append(SlotRange(first, last))
        return tuple(found)

    def _free_label(self, name: str) -> str:
        taken = set(self._labels.values())
        number = 0
        while (label := f"{name}\0{number}") in taken:
            number += 1
        return label

    def _points_of(self, label: str) -> set[int]:
        return {murmur3_32(f"{label}\0{number}".encode()) % SLOTS for number in range(self._points_each)}
