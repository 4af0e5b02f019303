"""What must be delivered again, and how often it was asked for. Positions are packed into ints."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from broker.core.position import Position

_ENTRY_BITS: Final = 48
_ENTRY_MASK: Final = (1 << _ENTRY_BITS) - 1
_SLACK: Final = 64  # stale heap items tolerated before the heap is rebuilt


class ReplaySet:
    """Positions that go before normal reads, lowest first (semantics 3.3).

    A heap with lazy deletion: `add` and each position of `pop_first` cost O(log n), `discard` O(1) amortised.
    """

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._members: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, position: Position) -> bool:
        return position[0] << _ENTRY_BITS | position[1] in self._members

    def add(self, position: Position) -> None:
        """Safe to repeat."""
        key = position[0] << _ENTRY_BITS | position[1]
        if key not in self._members:
            self._members.add(key)
            heappush(self._heap, key)

    def first(self) -> Position | None:
        """The lowest position, None when empty."""
        while self._heap:
            key = self._heap[0]
            if key in self._members:
                return Position(key >> _ENTRY_BITS, key & _ENTRY_MASK)
            heappop(self._heap)
        return None

    def pop_first(self, limit: int) -> list[Position]:
        """Take out at most `limit` positions, ascending."""
        popped: list[Position] = []
        while self._heap and len(popped) < limit:
            key = heappop(self._heap)
            if key in self._members:
                self._members.remove(key)
                popped.append(Position(key >> _ENTRY_BITS, key & _ENTRY_MASK))
        return popped

    def discard(self, position: Position) -> bool:
        """Take one position out; False when it was not in."""
        key = position[0] << _ENTRY_BITS | position[1]
        if key not in self._members:
            return False
        self._members.remove(key)
        if len(self._heap) > 2 * len(self._members) + _SLACK:
            self._heap = list(self._members)
            heapify(self._heap)
        return True

    def discard_through(self, mark_delete: Position) -> None:
        """Take out everything at or before `mark_delete`."""
        while (first := self.first()) is not None and first <= mark_delete:
            self.discard(first)

    def clear(self) -> None:
        self._heap.clear()
        self._members.clear()


class RedeliveryCounts:
    """How often redelivery of an entry was asked for (semantics 3.7); ints only."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, position: Position) -> int:
        return self._counts.get(position[0] << _ENTRY_BITS | position[1], 0)

    def increment(self, position: Position) -> None:
        key = position[0] << _ENTRY_BITS | position[1]
        self._counts[key] = self._counts.get(key, 0) + 1

    def discard(self, position: Position) -> None:
        if self._counts:
            self._counts.pop(position[0] << _ENTRY_BITS | position[1], None)

    def discard_through(self, mark_delete: Position) -> None:
        """Linear: for acts only."""
        limit = mark_delete[0] << _ENTRY_BITS | max(0, mark_delete[1])
        if mark_delete[1] < 0:
            limit -= 1
        for key in [key for key in self._counts if key <= limit]:
            del self._counts[key]

    def clear(self) -> None:
        self._counts.clear()
