"""Run Python's full garbage collections at chosen times.

A full collection stops the broker for 50 ms, or for 0.8 s with 10,000 topics and their clients. Therefore the broker
lets Python collect only young objects, and starts full collections itself. Most full collections skip objects that
survived an earlier collection, because `gc.freeze` has set these objects aside.
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

YOUNG_OBJECTS: Final = 700
# Python collects the middle generation after this many young collections. With Python's default, 10, such a collection
# stops the broker for 4 ms.
YOUNG_COLLECTIONS: Final = 4
_NEVER: Final = 1 << 30
LOOK_EVERY_S: Final = 1.0
# Limits for the usual full collections, which skip the objects that `gc.freeze` has set aside.
PAUSE_SHARE: Final = 500  # Collections take at most 1/500 of the time
AT_LEAST_S: Final = 10.0
# If peak memory grows by this much, the next collection comes earlier.
GROWTH_BYTES: Final = 16 * 1024 * 1024
GROWING_SHARE: Final = 20  # Collections take at most 1/20 of the time while memory grows
# The same limits for the rarer collections of all objects.
ALL_SHARE: Final = 5000
ALL_AT_LEAST_S: Final = 600.0
ALL_GROWTH_BYTES: Final = 64 * 1024 * 1024
ALL_GROWING_SHARE: Final = 100


class FullCollections:
    """Runs full collections in the event loop."""

    def __init__(
        self,
        *,
        call_later: Timer | None = None,
        now_s: Callable[[], float] = time.monotonic,
        peak_bytes: Callable[[], int] | None = None,
        collect_new: Callable[[], object] | None = None,
        collect_all: Callable[[], object] | None = None,
    ) -> None:
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._now_s = now_s
        self._peak_bytes = peak_bytes or peak_memory_bytes
        self._new = _Kind(
            collect_new or _collect_new,
            share=PAUSE_SHARE,
            at_least_s=AT_LEAST_S,
            growth_bytes=GROWTH_BYTES,
            growing_share=GROWING_SHARE,
        )
        self._all = _Kind(
            collect_all or _collect_all,
            share=ALL_SHARE,
            at_least_s=ALL_AT_LEAST_S,
            growth_bytes=ALL_GROWTH_BYTES,
            growing_share=ALL_GROWING_SHARE,
        )
        for kind in (self._new, self._all):
            kind.ended(now_s(), self._peak_bytes())
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Switch off Python's automatic full collections, and start the timer for the broker's full collections."""
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, _NEVER)
        self._next = self._call_later(LOOK_EVERY_S, self._look)

    def stop(self) -> None:
        """Stop the full collections. Safe to repeat."""
        if self._next is not None:
            self._next.cancel()

    def _look(self) -> None:
        began_s, peak_bytes = self._now_s(), self._peak_bytes()
        due = next((kind for kind in (self._all, self._new) if kind.is_due(began_s, peak_bytes)), None)
        if due is not None:
            due.collect()
            ended_s = self._now_s()
            due.took_s = ended_s - began_s
            self._new.ended(ended_s, self._peak_bytes())
            if due is self._all:
                self._all.ended(ended_s, self._peak_bytes())
        self._next = self._call_later(LOOK_EVERY_S, self._look)


class _Kind:
    def __init__(
        self,
        collect: Callable[[], object],
        *,
        share: int,
        at_least_s: float,
        growth_bytes: int,
        growing_share: int,
    ) -> None:
        self.collect = collect
        self.took_s = 0.0
        self._share = share
        self._at_least_s = at_least_s
        self._growth_bytes = growth_bytes
        self._growing_share = growing_share

    def ended(self, now_s: float, peak_bytes: int) -> None:
        self._ended_s, self._peak_then = now_s, peak_bytes

    def is_due(self, now_s: float, peak_bytes: int) -> bool:
        since_s = now_s - self._ended_s
        if since_s >= max(self._at_least_s, self._share * self.took_s):
            return True
        has_grown = peak_bytes - self._peak_then >= self._growth_bytes
        return has_grown and since_s >= self._growing_share * self.took_s


def _collect_new() -> None:
    gc.collect()
    gc.freeze()


def _collect_all() -> None:
    gc.unfreeze()
    _collect_new()


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
