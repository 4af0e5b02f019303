"""Choose the hash slots of Key_Shared consumers. A new consumer takes half of the largest range."""

from __future__ import annotations

from bisect import bisect_left

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SLOTS, SlotRange

__all__ = ["RangeSplit"]


class RangeSplit:
    """Maps hash slots to consumers, with one range of slots per consumer."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # Last slot of each range, ascending
        self._owners: list[DispatchConsumer] = []  # Same order as `_ends`

    def select(self, slot: int) -> DispatchConsumer | None:
        return self._owners[bisect_left(self._ends, slot)] if self._ends else None

    def add(self, consumer: DispatchConsumer) -> None:
        """Give the first consumer every slot, and each later consumer half of the largest range.

        Safe to repeat. Raises ConsumerAssignFailed if every range is a single slot.
        """
        if consumer in self._owners:
            return
        if not self._ends:
            self._ends, self._owners = [SLOTS - 1], [consumer]
            return
        starts = [0, *(end + 1 for end in self._ends[:-1])]
        sizes = [end - start + 1 for start, end in zip(starts, self._ends, strict=True)]
        size = max(sizes)
        at = sizes.index(size)
        if size < 2:
            raise ConsumerAssignFailed(f"each of the {SLOTS} hash slots has its own consumer; disconnect one")
        self._ends.insert(at, starts[at] + size // 2 - 1)
        self._owners.insert(at, consumer)

    def remove(self, consumer: DispatchConsumer) -> None:
        """Remove a consumer, and merge its range into a neighbouring range. Safe to repeat."""
        if consumer not in self._owners:
            return
        at = self._owners.index(consumer)
        if at + 1 < len(self._owners):
            del self._ends[at], self._owners[at]
        elif at:
            del self._ends[at - 1], self._owners[at]
        else:
            self._ends, self._owners = [], []

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        if consumer not in self._owners:
            return ()
        at = self._owners.index(consumer)
        return (SlotRange(self._ends[at - 1] + 1 if at else 0, self._ends[at]),)
