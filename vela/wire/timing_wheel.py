"""Due times in a timing wheel without a clock. Scheduling and cancelling cost about the same with any number of keys.

The broker uses it for deliveries and waiting pulls, the client for deadlines of acks and for negative acks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

__all__ = ["TimingWheel"]

K = TypeVar("K", bound=Hashable)

_SPARE_TICKS: Final = 64  # ticks without a bucket that a small heap may hold


class TimingWheel(Generic[K]):
    """Keys with a due time each, in buckets of `tick_ms`; a heap knows which bucket is the next.

    `pop_due` returns no key before its due time, and each key at the first call at or after that time, whatever the
    tick. With a longer tick there are fewer buckets, and searching a bucket takes longer.
    """

    __slots__ = ("_buckets", "_due_ms", "_next", "_tick_ms")

    def __init__(self, *, tick_ms: int) -> None:
        if tick_ms < 1:
            raise ValueError("tick_ms must be 1 or more")
        self._tick_ms = tick_ms
        self._due_ms: dict[K, int] = {}
        self._buckets: dict[int, set[K]] = {}  # by tick; empty ones are removed
        # A heap of ticks. A tick whose bucket is gone stays at most until it is the first.
        self._next: list[int] = []

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: K) -> bool:
        return key in self._due_ms

    def __iter__(self) -> Iterator[K]:
        return iter(self._due_ms)

    def due_ms(self, key: K) -> int | None:
        """Return when a key is due; None if it is not scheduled."""
        return self._due_ms.get(key)

    def schedule(self, key: K, due_ms: int) -> None:
        """Set or move the due time of a key. A key with a past time is due at the next `pop_due`."""
        self.cancel(key)
        tick = due_ms // self._tick_ms
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = set()
            self._push(tick)
        bucket.add(key)
        self._due_ms[key] = due_ms

    def cancel(self, key: K) -> bool:
        """Forget a key. Return False if it was not scheduled."""
        due_ms = self._due_ms.pop(key, None)
        if due_ms is None:
            return False
        self._take_out(key, due_ms)
        return True

    def pop_due(self, now_ms: int) -> list[K]:
        """Remove and return the keys due at or before `now_ms`, earliest first."""
        now_tick = now_ms // self._tick_ms
        due: list[tuple[int, K]] = []
        while (tick := self._first_tick()) is not None and tick < now_tick:
            due += [(self._due_ms[key], key) for key in self._buckets.pop(tick)]
        due += [
            (self._due_ms[key], key) for key in self._buckets.get(now_tick, ()) if self._due_ms[key] <= now_ms
        ]
        due.sort(key=lambda item: item[0])
        for due_ms, key in due:
            del self._due_ms[key]
            if due_ms // self._tick_ms == now_tick:
                self._take_out(key, due_ms)
        return [key for _, key in due]

    def next_due_ms(self) -> int | None:
        """Return the earliest due time; None if nothing is scheduled."""
        tick = self._first_tick()
        return None if tick is None else min(self._due_ms[key] for key in self._buckets[tick])

    def clear(self) -> None:
        """Forget every key."""
        self._due_ms.clear()
        self._buckets.clear()
        self._next.clear()

    def _take_out(self, key: K, due_ms: int) -> None:
        tick = due_ms // self._tick_ms
        bucket = self._buckets[tick]
        bucket.remove(key)
        if not bucket:
            del self._buckets[tick]

    def _push(self, tick: int) -> None:
        heappush(self._next, tick)
        # A key that is scheduled and cancelled repeatedly pushes its tick each time. Drop ticks without a bucket before
        # they fill the heap.
        if len(self._next) > 2 * len(self._buckets) + _SPARE_TICKS:
            self._next = list(self._buckets)
            heapify(self._next)

    def _first_tick(self) -> int | None:
        while self._next:
            if self._next[0] in self._buckets:
                return self._next[0]
            heappop(self._next)
        return None
