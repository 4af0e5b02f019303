"""Deadlines in a hashed timing wheel: O(1) to schedule and cancel, whatever their number. No clock inside.

Not the client's: here due times are exact to the millisecond, come out in their order and can be asked for.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TimingWheel(Generic[K]):
    """Keys with a due time. Slots of `tick_ms`; a key due later than one turn waits for its turn in its slot.

    A key is never popped before its due time, and by the first `pop_due` at or after it.
    """

    __slots__ = ("_due", "_size", "_slots", "_tick", "_tick_ms")

    def __init__(self, *, tick_ms: int = 10, slots: int = 512) -> None:
        if tick_ms < 1 or slots < 1:
            raise ValueError("tick_ms and slots must be 1 or more")
        self._tick_ms = tick_ms
        self._size = slots
        self._slots: dict[
            int, set[K]
        ] = {}  # those in use: 512 empty sets cost every idle subscription 110 KB
        self._due: dict[K, tuple[int, int]] = {}
        self._tick = 0  # of the last pop_due

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def due_ms(self, key: K) -> int | None:
        """When a key is due, None when it is not scheduled."""
        known = self._due.get(key)
        return None if known is None else known[0]

    def schedule(self, key: K, due_ms: int) -> None:
        """Set or move the due time of a key; one in the past is due at the next `pop_due`."""
        self.cancel(key)
        slot = max(self._tick, due_ms // self._tick_ms) % self._size
        self._due[key] = (due_ms, slot)
        self._slots.setdefault(slot, set()).add(key)

    def cancel(self, key: K) -> bool:
        """Forget a key; False when it is not scheduled."""
        known = self._due.pop(key, None)
        if known is None:
            return False
        slot = self._slots[known[1]]
        slot.remove(key)
        if not slot:
            del self._slots[known[1]]
        return True

    def pop_due(self, now_ms: int) -> list[K]:
        """Take out the keys due at or before `now_ms`, earliest first. A clock set back pops nothing
        early.
        """
        now_tick = max(self._tick, now_ms // self._tick_ms)
        turns = min(now_tick - self._tick + 1, self._size) if self._due else 0
        due: list[tuple[int, K]] = []
        for tick in range(now_tick - turns + 1, now_tick + 1):
            slot = self._slots.get(tick % self._size, ())
            due += [(self._due[key][0], key) for key in slot if self._due[key][0] <= now_ms]
        self._tick = now_tick
        due.sort(key=lambda item: item[0])
        for _, key in due:
            self.cancel(key)
        return [key for _, key in due]

    def next_due_ms(self) -> int | None:
        """Earliest due time, None when nothing is scheduled. At most one pass over the slots, or over
        the keys.
        """
        if not self._due:
            return None
        turn_end_ms = (self._tick + self._size) * self._tick_ms
        for tick in range(self._tick, self._tick + self._size):
            dues = [self._due[key][0] for key in self._slots.get(tick % self._size, ())]
            if dues and min(dues) < turn_end_ms:
                return min(dues)
        return min(due_ms for due_ms, _ in self._due.values())
