"""Entries to deliver again, and redelivery counts."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from broker.core.cursor.position_set import PositionSet, positions_of
from broker.core.position import Position, packed

_SLACK: Final = 64


class ReplaySet(PositionSet):
    """The positions of entries to deliver before normal reads, lowest first."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[int] = []

    def first(self) -> Position | None:
        """Return the lowest position, or None if the set is empty."""
        key = self._first_block()
        return None if key is None else next(positions_of(key, self._blocks[key]))

    def peek(self, limit: int) -> list[Position]:
        """Return at most `limit` positions in ascending order, without removing them."""
        found: list[Position] = []
        for key in sorted(self._blocks):
            found += islice(positions_of(key, self._blocks[key]), limit - len(found))
            if len(found) == limit:
                break
        return found

    def pop_first(self, limit: int) -> list[Position]:
        """Remove and return at most `limit` positions in ascending order."""
        popped: list[Position] = []
        while len(popped) < limit and (key := self._first_block()) is not None:
            popped += islice(positions_of(key, self._blocks[key]), limit - len(popped))
            self._take_through(key, popped[-1])
        return popped

    def discard_through(self, mark_delete: Position) -> None:
        """Remove everything at or before `mark_delete`."""
        self.discard_before(Position(mark_delete.ledger_id, mark_delete.entry_id + 1))

    def clear(self) -> None:
        super().clear()
        self._heap.clear()

    def _first_block(self) -> int | None:
        while self._heap:
            if self._heap[0] in self._blocks:
                return self._heap[0]
            heappop(self._heap)
        return None

    def _new_block(self, key: int) -> None:
        if len(self._heap) > 2 * len(self._blocks) + _SLACK:
            self._heap = list(self._blocks)
            heapify(self._heap)
        heappush(self._heap, key)


class RedeliveryCounts:
    """The redelivery count of each entry.

    The count rises with each requested redelivery, for example after a negative ack. With `every_send`, the count also
    rises when the entry's consumer leaves.
    """

    __slots__ = ("_counts", "_every_send")

    def __init__(self, *, every_send: bool = False) -> None:
        self._counts: dict[int, int] = {}
        self._every_send = every_send

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, position: Position) -> int:
        return self._counts.get(packed(position), 0)

    def increment(self, position: Position) -> None:
        key = packed(position)
        self._counts[key] = self._counts.get(key, 0) + 1

    def returned(self, positions: Iterable[Position]) -> None:
        """With `every_send`, raise the counts of entries whose consumer has left."""
        if self._every_send:
            for position in positions:
                self.increment(position)

    def nobody_left(self) -> None:
        """Without `every_send`, forget the counts after the last consumer has left."""
        if not self._every_send:
            self._counts.clear()

    def discard(self, position: Position) -> None:
        if self._counts:
            self._counts.pop(packed(position), None)

    def discard_through(self, mark_delete: Position) -> None:
        """Forget the counts at or before `mark_delete`."""
        limit = packed(Position(mark_delete.ledger_id, max(0, mark_delete.entry_id)))
        if mark_delete[1] < 0:
            limit -= 1
        for key in [key for key in self._counts if key <= limit]:
            del self._counts[key]

    def clear(self) -> None:
        self._counts.clear()
