"""AUTO_SPLIT without a ring: a newcomer takes half of the largest range (semantics 3.4)."""

from __future__ import annotations

from bisect import bisect_left

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SLOTS, SlotRange

__all__ = ["RangeSplit"]


class RangeSplit:
    """A `SlotSelector` with one range a consumer; a leaver's range goes to the neighbour above, else below."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # last slots, ascending
        self._owners: list[DispatchConsumer] = []  # of the range that ends there

    def select(self, slot: int) -> DispatchConsumer | None:
        """See `SlotSelector`."""
        return self._owners[bisect_left(self._ends, slot)] if self._ends else None

    def add(self, consumer: DispatchConsumer) -> None:
        """See `SlotSelector`; also ConsumerAssignFailed when there are as many consumers as slots."""
        if consumer in self._owners:
            return
        if not self._ends:
            self._ends, self._owners = [SLOTS - 1], [consumer]
            return
        starts = [0, *(end + 1 for end in self._ends[:-1])]
        size, at = max(
            (end - start + 1, -at) for at, (start, end) in enumerate(zip(starts, self._ends, strict=True))
        )
        at = -at
        if size < 2:
            raise ConsumerAssignFailed(f"every one of the {SLOTS} hash slots has a consumer of its own")
        self._ends.insert(at, starts[at] + size // 2 - 1)
        self._owners.insert(at, consumer)

    def remove(self, consumer: DispatchConsumer) -> None:
        """See `SlotSelector`."""
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
        """See `SlotSelector`."""
        if consumer not in self._owners:
            return ()
        at = self._owners.index(consumer)
        return (SlotRange(self._ends[at - 1] + 1 if at else 0, self._ends[at]),)
