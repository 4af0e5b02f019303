"""Decide when Python's garbage collector goes through all objects of the broker.

Reference counts free nearly every object at once. The collector frees cycles, such as those of a lost connection, and
visits every object to find them. The entry cache alone has a hundred thousand objects, so a full collection stops the
broker for 50 ms. By default, Python makes a full collection every few seconds while a producer sends at full speed.
So the broker lets Python collect only young objects, and makes full collections itself, but seldom: the longer a
collection took, the longer the broker waits before the next one. If memory grows, the broker waits less.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.clock import Timer

__all__ = ["FullCollections", "peak_memory_bytes"]

# Python 3.11's default: after this many new objects, the collector looks for cycles among them.
YOUNG_OBJECTS: Final = 700
# After this many collections of young objects, the collector goes through the middle generation, which holds those that
# stayed alive. With Python's default, 10, that takes 4 ms.
YOUNG_COLLECTIONS: Final = 4
_NEVER: Final = 1 << 30
LOOK_EVERY_S: Final = 1.0
PAUSE_SHARE: Final = 500  # full collections together take at most 1/500 of the time
AT_LEAST_S: Final = 10.0
# If the peak of memory has risen by this much, the growth may be garbage, so the next collection comes earlier.
GROWTH_BYTES: Final = 16 * 1024 * 1024
GROWING_SHARE: Final = 20  # in that case full collections together take at most 1/20 of the time


class FullCollections:
    """Collects the garbage of all generations on the event loop that starts it."""

    def __init__(
        self,
        *,
        call_later: Timer | None = None,
        now_s: Callable[[], float] = time.monotonic,
        peak_bytes: Callable[[], int] | None = None,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        """Begin to measure. `peak_bytes` returns the most memory that the process has ever used."""
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._now_s = now_s
        self._peak_bytes = peak_bytes or peak_memory_bytes
        self._collect = collect
        self._took_s = 0.0
        self._ended_s = now_s()
        self._peak_then = self._peak_bytes()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Make full collections in place of Python, until `stop` is called."""
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, _NEVER)
        self._next = self._call_later(LOOK_EVERY_S, self._look)

    def stop(self) -> None:
        """Stop collecting. Safe to repeat."""
        if self._next is not None:
            self._next.cancel()

    def _look(self) -> None:
        began_s = self._now_s()
        if self._is_due(began_s - self._ended_s):
            self._collect()
            self._ended_s = self._now_s()
            self._took_s = self._ended_s - began_s
            self._peak_then = self._peak_bytes()
        self._next = self._call_later(LOOK_EVERY_S, self._look)

    def _is_due(self, since_s: float) -> bool:
        if since_s >= max(AT_LEAST_S, PAUSE_SHARE * self._took_s):
            return True
        return (
            since_s >= GROWING_SHARE * self._took_s and self._peak_bytes() - self._peak_then >= GROWTH_BYTES
        )


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
