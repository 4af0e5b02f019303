"""The replay set: queues of entries that are sent before new entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

from broker.core.position import Position, packed, unpacked
from broker.core.subscription.redelivery import ReplaySet

__all__ = ["ANYBODY", "ReplayQueues"]

ANYBODY: Final = 0  # Queue of entries that any consumer may get, or whose slot is not known yet


class ReplayQueues:
    """Numbered queues of positions. A position is in at most one queue.

    Every queue except ANYBODY is *bound* to one consumer or to one hash slot. A consumer's queue has the number
    `consumer.key`. A slot's queue has the number `-1 - slot`.
    """

    __slots__ = ("_anybody", "_bound", "_where")

    def __init__(self) -> None:
        self._anybody = ReplaySet()
        self._bound: dict[int, ReplaySet] = {}
        self._where: dict[int, int] = {}  # Maps packed positions to numbers of bound queues

    def __len__(self) -> int:
        return len(self._anybody) + len(self._where)

    def __contains__(self, position: Position) -> bool:
        return position in self._anybody or packed(position) in self._where

    def bound(self) -> Iterator[Position]:
        """Yield the positions in bound queues, in no particular order."""
        for key in self._where:
            yield unpacked(key)

    @property
    def bound_entries(self) -> int:
        """The number of positions in bound queues."""
        return len(self._where)

    def has(self, queue: int) -> bool:
        """Return whether a bound queue has entries."""
        return queue in self._bound

    def add(self, position: Position, queue: int = ANYBODY) -> None:
        """Add a position to `queue`, and remove the position from any other queue. Safe to repeat."""
        key = packed(position)
        known = self._where.get(key)
        if known is not None and known != queue:
            self._unbind(position, key)
        if queue == ANYBODY:
            self._anybody.add(position)
            return
        self._anybody.discard(position)
        self._where[key] = queue
        members = self._bound.get(queue)
        if members is None:
            members = self._bound[queue] = ReplaySet()
        members.add(position)

    def discard(self, position: Position) -> bool:
        """Remove a position. Return False if the position was in no queue."""
        if self._anybody.discard(position):
            return True
        key = packed(position)
        if key not in self._where:
            return False
        self._unbind(position, key)
        return True

    def pop_first(self, rooms: Iterable[tuple[int, int]], limit: int) -> list[Position]:
        """Remove and return the lowest positions of several queues, at most `limit` in total.

        Each pair in `rooms` is a queue and the maximum number of positions to take from the queue.
        """
        heads: list[tuple[Position, int, int]] = []
        for queue, room in rooms:
            members = self._members(queue)
            if members is not None and room > 0 and (first := members.first()) is not None:
                heads.append((first, queue, room))
        if len(heads) == 1 and heads[0][1] == ANYBODY:
            return self._anybody.pop_first(min(limit, heads[0][2]))
        heapify(heads)
        popped: list[Position] = []
        while heads and len(popped) < limit:
            position, queue, room = heads[0]
            self.discard(position)
            popped.append(position)
            members = self._members(queue)
            following = members.first() if members is not None and room > 1 else None
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, queue, room - 1))
        return popped

    def peek(self, limit: int) -> list[Position]:
        """Return at most `limit` positions of ANYBODY, lowest first, without removing them."""
        return self._anybody.peek(limit)

    def members(self, queue: int) -> list[Position]:
        """Return the positions in a bound queue, ascending."""
        return list(self._bound.get(queue, ()))

    def slot_queues(self) -> list[int]:
        """Return the numbers of the queues that belong to slots."""
        return [queue for queue in self._bound if queue < 0]

    def move(self, source: int, target: int) -> int:
        """Move everything from a bound queue to another queue. Return the number of moved positions."""
        moved = self.members(source)
        if source != target:
            for position in moved:
                self.add(position, target)
        return len(moved)

    def sort(self, queue_of: Callable[[Position], int]) -> None:
        """Move every position in the bound queues to the queue that `queue_of` returns. Takes linear time."""
        positions = list(self.bound())
        self._where.clear()
        self._bound.clear()
        for position in positions:
            self.add(position, queue_of(position))

    def discard_through(self, mark_delete: Position) -> None:
        """Remove everything at or before `mark_delete`. Takes linear time."""
        self._anybody.discard_through(mark_delete)
        for queue in list(self._bound):
            for position in [each for each in self._bound[queue] if each <= mark_delete]:
                self.discard(position)

    def clear(self) -> None:
        self._anybody.clear()
        self._bound.clear()
        self._where.clear()

    def _members(self, queue: int) -> ReplaySet | None:
        return self._anybody if queue == ANYBODY else self._bound.get(queue)

    def _unbind(self, position: Position, key: int) -> None:
        queue = self._where.pop(key)
        members = self._bound[queue]
        members.discard(position)
        if not members:
            del self._bound[queue]
