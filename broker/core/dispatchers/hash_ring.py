"""A consistent hash ring: owners have points on it, and the stretch up to a point belongs to that point's owner."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SLOTS, SlotRange
from vela.wire.key_hash import murmur3_32

__all__ = ["DEFAULT_POINTS", "HashRing", "ring_choice"]

DEFAULT_POINTS: Final = 100  # per owner


def ring_choice(names: Mapping[str, DispatchConsumer], key: str) -> DispatchConsumer:
    """Return the consumer whose stretch of the ring `key` falls on. The same names always give the same answer.

    Raises ValueError if `names` is empty.
    """
    if not names:
        raise ValueError("a hash ring needs at least one consumer")
    ring = sorted(
        (murmur3_32(f"{name}{number}".encode()), name) for name in names for number in range(DEFAULT_POINTS)
    )
    at = bisect_left(ring, (murmur3_32(key.encode()), ""))
    return names[ring[at % len(ring)][1]]


class HashRing:
    """A `SlotSelector` for AUTO_SPLIT: each consumer has `points` places among the slots, computed from its name.

    A consumer that joins takes slots from the others, a consumer that leaves gives its slots to the others, and no
    other slot moves. Consumers with the same name get the lowest free number as a suffix, so that their places differ.
    """

    def __init__(self, points: int = DEFAULT_POINTS) -> None:
        self._points_each = points
        self._labels: dict[DispatchConsumer, str] = {}
        self._at: dict[int, list[tuple[str, DispatchConsumer]]] = {}  # point → its owners, by label
        self._points: list[int] = []
        self._owners: list[DispatchConsumer] = []  # of each point

    def select(self, slot: int) -> DispatchConsumer | None:
        """Return the owner of the first point at or after the slot, going round the ring. None without consumers."""
        points = self._points
        if not points:
            return None
        at = bisect_left(points, slot)
        return self._owners[at if at < len(points) else 0]

    def add(self, consumer: DispatchConsumer) -> None:
        """Give a consumer its points."""
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
        """Remove a consumer's points. Does nothing if it has none."""
        label = self._labels.pop(consumer, None)
        if label is None:
            return
        for point in set(self._points_of(label)):
            self._at[point].remove((label, consumer))
            if not self._at[point]:
                del self._at[point]
        self._arrange()

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """Return the slots the consumer owns, ascending."""
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
