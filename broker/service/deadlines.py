"""Time that is finer than a tick: one timer for all subscriptions with deadlines (design 7).

The owner's wheel and Celery's tick call the same function, `run_due`, which takes back what is overdue and may run
twice harmlessly; either alone is enough. VELA_WHEEL=0 switches the timer off.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker.service.clock import Clock

if TYPE_CHECKING:
    from broker.service.subscription import Subscription

__all__ = ["Deadlines"]

log = logging.getLogger(__name__)

_SOONEST_S = 0.01


class Deadlines:
    """Subscriptions that have deadlines, and the timer for the nearest one."""

    def __init__(self, clock: Clock, *, wheel_enabled: bool) -> None:
        self._clock = clock
        self._wheel_enabled = wheel_enabled
        self._watched: set[Subscription] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    def watch(self, subscription: Subscription, due_ms: int) -> None:
        """This subscription scheduled a deadline."""
        self._watched.add(subscription)
        self._arm(due_ms)

    def run_due(self) -> int:
        """Take back every overdue delivery of this process; how many."""
        now_ms = self._clock.now_ms()
        taken = 0
        for subscription in list(self._watched):
            try:
                taken += subscription.redeliver_due(now_ms)
            except Exception:  # the others' deadlines are due all the same
                log.exception("deadlines of %s", subscription.name)
            if not len(subscription.deadlines):
                self._watched.discard(subscription)
        return taken

    def stop(self) -> None:
        """No timer fires from here on."""
        self._wheel_enabled = False
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, at_ms: int) -> None:
        if not self._wheel_enabled:
            return
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
        due = [due_ms for each in self._watched if (due_ms := each.deadlines.next_due_ms()) is not None]
        if due:
            self._arm(min(due))
