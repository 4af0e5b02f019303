"""Keys and their due times, in a heap."""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

__all__ = ["DueTimes"]

K = TypeVar("K")

_SPARE_ITEMS: Final = 64


class DueTimes(Generic[K]):
    """Keys with one due time each.

    Heap items hold a number instead of the key, so that a discarded key is freed at once.
    """

    __slots__ = ("_heap", "_keys", "_last_number", "_places")

    def __init__(self) -> None:
        self._places: dict[K, tuple[int, int]] = {}  # Due time and item number
        self._keys: dict[int, K] = {}
        self._heap: list[tuple[int, int]] = []
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: K) -> bool:
        return key in self._places

    def bring_forward(self, key: K, due_ms: int) -> None:
        """Set a key's due time, unless the key already has an earlier due time."""
        known = self._places.get(key)
        if known is not None:
            if known[0] <= due_ms:
                return
            del self._keys[known[1]]
        self._last_number += 1
        place = due_ms, self._last_number
        self._places[key] = place
        self._keys[place[1]] = key
        heapq.heappush(self._heap, place)
        if len(self._heap) > 2 * len(self._places) + _SPARE_ITEMS:
            self._heap = list(self._places.values())
            heapq.heapify(self._heap)

    def discard(self, key: K) -> None:
        """Forget a key. Safe to repeat."""
        known = self._places.pop(key, None)
        if known is not None:
            del self._keys[known[1]]

    def pop_due(self, now_ms: int) -> list[K]:
        """Remove and return the keys due at or before `now_ms`, earliest first."""
        due = []
        while (next_ms := self.next_due_ms()) is not None and next_ms <= now_ms:
            key = self._keys.pop(heapq.heappop(self._heap)[1])
            del self._places[key]
            due.append(key)
        return due

    def next_due_ms(self) -> int | None:
        """Return the earliest due time, or None if there is no key."""
        heap = self._heap
        while heap and heap[0][1] not in self._keys:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
