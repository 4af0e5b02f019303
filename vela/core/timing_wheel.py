"""Due times in a hashed timing wheel: scheduling and cancelling cost the same, however many keys there are.

Not the broker's: the client rounds to whole ticks, as Apache's trackers do, and takes whole buckets.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

__all__ = ["TimingWheel"]

K = TypeVar("K", bound=Hashable)


class TimingWheel(Generic[K]):
    """Keys in buckets of `tick_ms`, found by the hash of their tick; a heap knows which bucket is the next.

    A due time is rounded up to a whole tick, so that no key is early and none later than one tick. With
    `early=True` it is rounded down: none is late, and each up to a tick early (upstream's negative acks).
    """

    __slots__ = ("_buckets", "_early", "_next", "_tick_ms", "_tick_of")

    def __init__(self, *, tick_ms: int, early: bool = False) -> None:
        if tick_ms < 1:
            raise ValueError("tick_ms must be 1 or more")
        self._tick_ms = tick_ms
        self._early = early
        self._tick_of: dict[K, int] = {}
        self._buckets: dict[int, set[K]] = {}
        self._next: list[int] = []  # heap of ticks; those whose bucket was emptied stay until they surface

    def __len__(self) -> int:
        return len(self._tick_of)

    def __contains__(self, key: K) -> bool:
        return key in self._tick_of

    def __iter__(self) -> Iterator[K]:
        return iter(self._tick_of)

    def schedule(self, key: K, due_ms: int) -> None:
        """Set or move the due time of a key."""
        self.cancel(key)
        tick = due_ms // self._tick_ms if self._early else -(-due_ms // self._tick_ms)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = set()
            heappush(self._next, tick)
        bucket.add(key)
        self._tick_of[key] = tick

    def cancel(self, key: K) -> bool:
        """Forget a key; False when it is not scheduled."""
        tick = self._tick_of.pop(key, None)
        if tick is None:
            return False
        bucket = self._buckets[tick]
        bucket.remove(key)
        if not bucket:
            del self._buckets[tick]
        return True

    def pop_due(self, now_ms: int) -> list[K]:
        """Take out the keys that are due, bucket by bucket, the earliest bucket first."""
        due: list[K] = []
        while (tick := self._first_tick()) is not None and tick * self._tick_ms <= now_ms:
            due += self._buckets.pop(tick)
        for key in due:
            del self._tick_of[key]
        return due

    def next_due_ms(self) -> int | None:
        """When the next `pop_due` finds something, None when nothing is scheduled."""
        tick = self._first_tick()
        return None if tick is None else tick * self._tick_ms

    def clear(self) -> None:
        """Forget every key."""
        self._tick_of.clear()
        self._buckets.clear()
        self._next.clear()

    def _first_tick(self) -> int | None:
        while self._next:
            if self._next[0] in self._buckets:
                return self._next[0]
            heappop(self._next)
        return None
