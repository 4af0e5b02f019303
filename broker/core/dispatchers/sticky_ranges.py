"""The slot selector of the STICKY mode, in which each consumer chooses its slots."""

from __future__ import annotations

from bisect import bisect_right

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SlotRange

__all__ = ["StickyRanges"]


class StickyRanges:
    """Maps hash slots to the consumers that asked for them."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ranges: list[tuple[SlotRange, DispatchConsumer]] = []

    def select(self, slot: int) -> DispatchConsumer | None:
        at = bisect_right(self._firsts, slot) - 1
        if at < 0:
            return None
        (_, last), owner = self._ranges[at]
        return owner if slot <= last else None

    def add(self, consumer: DispatchConsumer) -> None:
        """Add a consumer's ranges, or replace them.

        Raises ConsumerAssignFailed, and changes nothing, if a range is invalid or overlaps another consumer's range.
        """
        policy = consumer.key_shared
        policy.check()
        others = self._without(consumer)
        firsts = [known.first for known, _ in others]
        for wanted in policy.ranges:
            at = bisect_right(firsts, wanted.last) - 1
            if at >= 0 and others[at][0].last >= wanted.first:
                known, owner = others[at]
                raise ConsumerAssignFailed(
                    f"hash range {wanted.first}-{wanted.last} overlaps {known.first}-{known.last} of consumer"
                    f" {owner.name}; choose other ranges"
                )
        self._arrange([*others, *((each, consumer) for each in policy.ranges)])

    def remove(self, consumer: DispatchConsumer) -> None:
        self._arrange(self._without(consumer))

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        return tuple(each for each, owner in self._ranges if owner is consumer)

    def _without(self, consumer: DispatchConsumer) -> list[tuple[SlotRange, DispatchConsumer]]:
        return [(each, owner) for each, owner in self._ranges if owner is not consumer]

    def _arrange(self, ranges: list[tuple[SlotRange, DispatchConsumer]]) -> None:
        self._ranges = sorted(ranges, key=lambda known: known[0])
        self._firsts = [known.first for known, _ in self._ranges]
