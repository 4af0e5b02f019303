"""Celery beat's scheduler, changed to use no CPU time while it waits, and to go on when the clock is set back."""

from __future__ import annotations

from typing import Any

from celery.beat import PersistentScheduler
from celery.utils.time import maybe_make_aware

__all__ = ["Scheduler"]


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """Wakes when a task is due. Celery's own wakes 10 ms earlier, then reads the clock again and again until then."""

    def adjust(self, n: Any, drift: float = 0.0) -> Any:
        """Return the seconds until a task is due, without Celery's drift of -10 ms."""
        return n

    def tick(self, *arguments: Any, **kwargs: Any) -> Any:
        """Send a task if one is due. Return the seconds until the next call.

        If the clock was set back, the periods of the tasks begin now. Celery's own scheduler would send nothing until
        the clock has caught up, and a restart would not help, because it stores when each task last ran.
        """
        for each in self.schedule.values():
            now = each.default_now()
            if maybe_make_aware(each.last_run_at) > now:
                each.last_run_at = now
                self._heap = None  # the heap has times of the old clock
        return super().tick(*arguments, **kwargs)
