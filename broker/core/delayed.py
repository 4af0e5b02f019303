"""Delayed entries of a topic, shared by all its subscriptions.

A table in PostgreSQL stores due times. Memory holds the earliest rows of the table, called the near window. Memory also
holds the due times of entries that were added with `stored=False`, because their rows may already be deleted. Due times
and positions are packed into ints, because Python's garbage collector skips ints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.position_set import BLOCK_ENTRIES, PositionSet, first_clear
from broker.core.position import Position

__all__ = ["DelayedEntries", "DueEntry", "next_ready"]

WINDOW_ENTRIES: Final = 8192  # A refill reads at most this many rows

_DUE_SHIFT: Final = 112
_LEDGER_SHIFT: Final = 48
_LEDGER_MASK: Final = (1 << _DUE_SHIFT - _LEDGER_SHIFT) - 1
_ENTRY_MASK: Final = (1 << _LEDGER_SHIFT) - 1


class DueEntry(NamedTuple):
    """One delayed entry. Sorts by due time, then by position."""

    due_ms: int  # Unix time
    ledger_id: int
    entry_id: int


class DelayedEntries:
    """The delayed entries of one topic.

    The near window has the rows up to and including `horizon`. If `horizon` is None, the near window has all rows.
    """

    __slots__ = ("_is_refilling", "_late", "_near", "_unstored", "_window", "horizon", "waiting")

    def __init__(self, *, window: int = WINDOW_ENTRIES) -> None:
        self.waiting = PositionSet()
        self.horizon: DueEntry | None = None
        self._window = window
        self._near: list[int] = []
        self._unstored: list[int] = []
        self._late: list[int] = []  # Entries beyond the horizon, added during a refill
        self._is_refilling = False

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def near_entries(self) -> int:
        """The number of due times in memory."""
        return len(self._near) + len(self._unstored)

    @property
    def needs_refill(self) -> bool:
        """Whether the caller should begin a refill."""
        return self.horizon is not None and not self._is_refilling and len(self._near) <= self._window // 2

    def load(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        """Add stored entries to `waiting`, without due times.

        After loading, set `horizon` to a `DueEntry` that sorts before all rows.
        """
        for entry_id in entry_ids:
            self.waiting.add(Position(ledger_id, entry_id))

    def add(self, entry: DueEntry, *, stored: bool = True) -> None:
        """Add a delayed entry. `stored` means that the entry has a row in the table."""
        self.waiting.add(Position(entry.ledger_id, entry.entry_id))
        key = _packed(entry)
        if not stored:
            heappush(self._unstored, key)
        elif self.horizon is None or entry <= self.horizon:
            heappush(self._near, key)
            self._shrink()
        elif self._is_refilling:
            self._late.append(key)

    def begin_refill(self) -> DueEntry:
        """Begin a refill and return the horizon. The caller must read rows beyond the horizon.

        Raises ValueError if the near window already has all rows.
        """
        if self.horizon is None:
            raise ValueError("the near window is complete; there is nothing to read")
        self._is_refilling = True
        return self.horizon

    def refill(self, entries: Sequence[DueEntry], *, is_all: bool) -> None:
        """End a refill and add the rows that the caller has read.

        `entries` must be in ascending order. `is_all` means that no more rows follow.
        """
        self._is_refilling = False
        if not is_all and entries:
            self.horizon = entries[-1]
        elif is_all:
            self.horizon = None
        for entry in entries:
            heappush(self._near, _packed(entry))
        late, self._late = self._late, []
        for key in late:
            if self.horizon is None or _unpacked(key) <= self.horizon:
                heappush(self._near, key)
        self._shrink()

    def give_up_refill(self) -> None:
        """End a refill after a failed read."""
        self._is_refilling = False
        self._late = []

    def pop_due(self, limit_ms: int, *, most: int) -> list[Position]:
        """Remove entries whose due time is at or before `limit_ms`, and return their positions."""
        popped: list[Position] = []
        for heap in (self._near, self._unstored):
            while heap and len(popped) < most and heap[0] >> _DUE_SHIFT <= limit_ms:
                key = heappop(heap)
                position = Position(key >> _LEDGER_SHIFT & _LEDGER_MASK, key & _ENTRY_MASK)
                if self.waiting.discard(position):
                    popped.append(position)
        return popped

    def next_due_ms(self) -> int | None:
        """Return the earliest due time in memory, or None if memory has no due times."""
        nearest = min((heap[0] for heap in (self._near, self._unstored) if heap), default=None)
        return None if nearest is None else nearest >> _DUE_SHIFT

    def popped_through_ms(self, limit_ms: int) -> int:
        """Return a due time up to which `pop_due` has removed all entries that have a row. It is at most `limit_ms`."""
        if self._near:
            return min(limit_ms, (self._near[0] >> _DUE_SHIFT) - 1)
        return limit_ms if self.horizon is None else min(limit_ms, self.horizon.due_ms - 1)

    def forget_before(self, position: Position) -> int:
        """Forget the entries below `position`. Return how many entries were forgotten."""
        return self.waiting.discard_before(position)

    def _shrink(self) -> None:
        if len(self._near) <= 2 * self._window or self._is_refilling:
            return
        self._near.sort()
        self._near = self._near[: self._window]
        self.horizon = _unpacked(self._near[-1])
        heapify(self._near)


def next_ready(cursor: Cursor, waiting: PositionSet, position: Position) -> Position:
    """Return the first entry at or after `position` that may be sent, or the end of the log."""
    at = cursor.next_unacked(position)
    while at in waiting:
        ledger_id, entry_id = at
        base, slot = entry_id & ~(BLOCK_ENTRIES - 1), entry_id & (BLOCK_ENTRIES - 1)
        while True:
            slot = first_clear(waiting.block(ledger_id, base) | cursor.acked_block(ledger_id, base), slot)
            if slot < BLOCK_ENTRIES:
                break
            base, slot = base + BLOCK_ENTRIES, 0
        at = cursor.next_unacked(Position(ledger_id, base + slot))
    return at


def _packed(entry: DueEntry) -> int:
    return entry.due_ms << _DUE_SHIFT | entry.ledger_id << _LEDGER_SHIFT | entry.entry_id


def _unpacked(key: int) -> DueEntry:
    return DueEntry(key >> _DUE_SHIFT, key >> _LEDGER_SHIFT & _LEDGER_MASK, key & _ENTRY_MASK)
