"""One heap and one timer for all timed work in the broker.

VELA_WHEEL=0 switches the timer off. Even then, a periodic Celery task triggers `run_due`.
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
    """A part of the broker, such as a subscription, that has work to do at certain times."""

    def run_due(self, now_ms: int) -> int:
        """Do the work that is due and return the number of affected entries or HTTP pulls. Safe to repeat."""

    def next_due_ms(self) -> int | None:
        """Return the Unix time in milliseconds at which to call `run_due` next, or None if no call is needed."""


class Deadlines:
    """Calls the `run_due` of each watched part when the part is due."""

    def __init__(self, clock: Clock, *, wheel_enabled: bool) -> None:
        self._clock = clock
        self._wheel_enabled = wheel_enabled
        self._due: DueTimes[Timed] = DueTimes()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def watch(self, timed: Timed, due_ms: int) -> None:
        """Call the part's `run_due` at `due_ms`. If an earlier time is already set for the part, keep that time."""
        self._due.bring_forward(timed, due_ms)
        self._arm(due_ms)

    def forget(self, timed: Timed) -> None:
        """Stop watching a part. Safe to repeat."""
        self._due.discard(timed)

    def run_due(self, named: Iterable[Timed] = ()) -> int:
        """Call the `run_due` of the parts in `named` and of the parts that are due.

        Returns the number of affected entries and HTTP pulls. Safe to repeat.
        """
        now_ms = self._clock.now_ms()
        done = 0
        for timed in dict.fromkeys((*named, *self._due.pop_due(now_ms))):
            try:
                done += timed.run_due(now_ms)
                next_ms = timed.next_due_ms()
            except Exception:  # A fault in one part must not delay other parts
                logger.exception("due work failed and runs again in a second: %s", timed)
                next_ms = now_ms + _AGAIN_AFTER_ERROR_MS
            if next_ms is not None:
                self.watch(timed, next_ms)
        return done

    def stop(self) -> None:
        """Stop the timer permanently."""
        self._wheel_enabled = False
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, at_ms: int) -> None:
        if not self._wheel_enabled:
            return
        at_ms = -(-at_ms // BUCKET_MS) * BUCKET_MS  # Round up, so that the timer fires less often
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
