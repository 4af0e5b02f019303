"""The replay set, divided by who may get an entry, so that nobody looks at what cannot be sent (semantics 3.3, 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

from broker.core.position import Position
from broker.core.subscription.redelivery import ReplaySet

__all__ = ["ANYBODY", "ReplayQueues"]

ANYBODY: Final = 0  # the queue of what any consumer may get, or of which nobody knows yet whose it is
_ENTRY_BITS: Final = 48
_ENTRY_MASK: Final = (1 << _ENTRY_BITS) - 1


class ReplayQueues:
    """Numbered queues of positions, each position in one of them.

    ANYBODY may hold a million (delayed messages that fall due together) and is bits only. The others, called *bound*,
    are few entries that wait for one consumer (its key, above 0) or for one slot (below 0); where each lies is kept.
    """

    __slots__ = ("_anybody", "_bound", "_where")

    def __init__(self) -> None:
        self._anybody = ReplaySet()
        self._bound: dict[int, ReplaySet] = {}
        self._where: dict[int, int] = {}  # packed position → its queue, of bound ones

    def __len__(self) -> int:
        return len(self._anybody) + len(self._where)

    def __contains__(self, position: Position) -> bool:
        return position in self._anybody or position[0] << _ENTRY_BITS | position[1] in self._where

    def bound(self) -> Iterator[Position]:
        """The positions in bound queues, in no order."""
        for key in self._where:
            yield Position(key >> _ENTRY_BITS, key & _ENTRY_MASK)

    @property
    def bound_entries(self) -> int:
        """Positions that wait for one consumer or slot."""
        return len(self._where)

    def has(self, queue: int) -> bool:
        """Whether a bound queue holds something."""
        return queue in self._bound

    def add(self, position: Position, queue: int = ANYBODY) -> None:
        """Safe to repeat; a position in another queue changes over."""
        key = position[0] << _ENTRY_BITS | position[1]
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
        """Take one position out; False when it was not in."""
        if self._anybody.discard(position):
            return True
        key = position[0] << _ENTRY_BITS | position[1]
        if key not in self._where:
            return False
        self._unbind(position, key)
        return True

    def pop_first(self, rooms: Iterable[tuple[int, int]], limit: int) -> list[Position]:
        """Take out at most `limit` positions, the lowest of these queues, ascending.

        `rooms` are queues, each with how many positions it may give. O((queues + limit) log queues).
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
        """The lowest of ANYBODY, which stay in."""
        return self._anybody.peek(limit)

    def move(self, source: int, target: int) -> None:
        """Everything in a bound queue changes over to another queue."""
        members = self._bound.get(source)
        if members is not None and source != target:
            for position in list(members):
                self.add(position, target)

    def sort(self, queue_of: Callable[[Position], int]) -> None:
        """Ask of each bound position anew where it belongs. Linear in them, for joins and leaves."""
        positions = list(self.bound())
        self._where.clear()
        self._bound.clear()
        for position in positions:
            self.add(position, queue_of(position))

    def discard_through(self, mark_delete: Position) -> None:
        """Take out everything at or before `mark_delete`. Linear, for acts."""
        self._anybody.discard_through(mark_delete)
        for queue in list(self._bound):
            for position in [each for each in self._bound[queue] if each <= mark_delete]:
                self.discard(position)

    def clear(self) -> None:
        """Forget everything."""
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
