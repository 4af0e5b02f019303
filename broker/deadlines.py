"""What waits for a time, in one heap: deliveries to take back, delayed messages, parked pulls; and one timer for all.

The timer is finer than Celery's tick. Both call `run_due`, which runs what is due and may run twice harmlessly; either
alone is enough. The tick also names what it found in PostgreSQL, and that is run whatever the heap knows of it.
VELA_WHEEL=0 switches the timer off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from broker.clock import Clock
from broker.core.due_times import DueTimes
from broker.core.subscription.delivery_deadlines import BUCKET_MS

__all__ = ["Deadlines", "Timed"]

logger = logging.getLogger(__name__)

_SOONEST_S: Final = 0.01
_AGAIN_AFTER_ERROR_MS: Final = 1000


class Timed(Protocol):
    """One that waits for a time: a subscription, a topic's delayed messages, the parked pulls."""

    def run_due(self, now_ms: int) -> int:
        """Do what is due and return the number of entries concerned. Running it twice does no harm."""

    def next_due_ms(self) -> int | None:
        """Return when to run it next; None while it waits for nothing."""


class Deadlines:
    """Runs each watched one when its time has come. A turn costs what is due, whatever the number watched."""

    def __init__(self, clock: Clock, *, wheel_enabled: bool) -> None:
        self._clock = clock
        self._wheel_enabled = wheel_enabled
        self._due: DueTimes[Timed] = DueTimes()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def watch(self, timed: Timed, due_ms: int) -> None:
        """Run this one at `due_ms`, or earlier if it was to run earlier already."""
        self._due.bring_forward(timed, due_ms)
        self._arm(due_ms)

    def forget(self, timed: Timed) -> None:
        """Do not run this one any more. Safe to repeat."""
        self._due.discard(timed)

    def run_due(self, named: Iterable[Timed] = ()) -> int:
        """Run `named`, and what the heap says is due. Return the number of entries concerned."""
        now_ms = self._clock.now_ms()
        done = 0
        for timed in dict.fromkeys((*named, *self._due.pop_due(now_ms))):
            try:
                done += timed.run_due(now_ms)
                next_ms = timed.next_due_ms()
            except Exception:  # one fault must not keep the others waiting
                logger.exception("running what is due failed and is tried again in a second: %s", timed)
                next_ms = now_ms + _AGAIN_AFTER_ERROR_MS
            if next_ms is not None:
                self.watch(timed, next_ms)
        return done

    def stop(self) -> None:
        """Let no timer fire from here on."""
        self._wheel_enabled = False
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, at_ms: int) -> None:
        if not self._wheel_enabled:
            return
        at_ms = -(-at_ms // BUCKET_MS) * BUCKET_MS  # what is due in the same bucket needs one timer
        if self._timer is not None and self._timer_at_ms <= at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(_SOONEST_S, (at_ms - self._clock.now_ms()) / 1000)
        self._timer_at_ms = at_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.run_due()
        next_ms = self._due.next_due_ms()
        if next_ms is not None:
            self._arm(next_ms)
