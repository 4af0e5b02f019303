"""Time that is finer than a tick: one timer for all subscriptions with deadlines (design 7).

The owner's wheel and Celery's tick call the same function, `run_due`, which takes back what is overdue and may run
twice harmlessly; either alone is enough. VELA_WHEEL=0 switches the timer off.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from broker.core.delivery_deadlines import BUCKET_MS
from broker.service.clock import Clock

__all__ = ["Deadlines", "Timed"]

log = logging.getLogger(__name__)

_SOONEST_S = 0.01


class Timed(Protocol):
    """What time drives: a subscription's deliveries, a topic's delayed messages."""

    def run_due(self, now_ms: int) -> int:
        """Do what is due; how many entries it concerned. Running it twice does no harm."""

    def next_due_ms(self) -> int | None:
        """When to run it next; None = it need not be watched any more."""


class Deadlines:
    """Whoever has deadlines, and the timer for the nearest one."""

    def __init__(self, clock: Clock, *, wheel_enabled: bool) -> None:
        self._clock = clock
        self._wheel_enabled = wheel_enabled
        self._watched: set[Timed] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def watch(self, timed: Timed, due_ms: int) -> None:
        """This one scheduled a deadline."""
        self._watched.add(timed)
        self._arm(due_ms)

    def run_due(self) -> int:
        """Do everything that is due in this process; how many entries it concerned."""
        now_ms = self._clock.now_ms()
        done = 0
        for timed in list(self._watched):
            try:
                done += timed.run_due(now_ms)
            except Exception:  # the others' deadlines are due all the same
                log.exception("deadlines of %s", timed)
            if timed.next_due_ms() is None:
                self._watched.discard(timed)
        return done

    def stop(self) -> None:
        """No timer fires from here on."""
        self._wheel_enabled = False
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, at_ms: int) -> None:
        if not self._wheel_enabled:
            return
        at_ms = -(-at_ms // BUCKET_MS) * BUCKET_MS  # what is due in the same bucket needs one timer
        if self._timer is not None and not self._timer.cancelled() and self._timer_at_ms <= at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(_SOONEST_S, (at_ms - self._clock.now_ms()) / 1000)
        self._timer_at_ms = at_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.run_due()
        due = [due_ms for each in self._watched if (due_ms := each.next_due_ms()) is not None]
        if due:
            self._arm(min(due))
