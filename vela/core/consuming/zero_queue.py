"""The permits of a consumer without a queue: one for each receive that waits."""

from __future__ import annotations

__all__ = ["ZeroQueueBalance"]


class ZeroQueueBalance:
    """What the broker may still send. A permit that a cancelled receive left there serves the next one."""

    __slots__ = ("_is_paused", "outstanding")

    def __init__(self, *, paused: bool = False) -> None:
        self.outstanding = (
            0  # permits at the broker; below 0 after a discarded batch cost more than was granted
        )
        self._is_paused = paused

    @property
    def is_paused(self) -> bool:
        """No Flow is sent, whoever waits."""
        return self._is_paused

    def attached(self) -> None:
        """A new connection: the broker has no permits of ours."""
        self.outstanding = 0

    def spent(self, permits: int) -> None:
        """A delivery came and cost so many."""
        self.outstanding -= permits

    def grant_for(self, waiting: int) -> int:
        """Permits to send in one Flow now, so that so many receives can be served; 0 for none."""
        missing = waiting - self.outstanding
        if self._is_paused or waiting == 0 or missing <= 0:
            return 0
        self.outstanding = waiting
        return missing

    def pause(self) -> None:
        """Send no Flow until `resume`. Safe to repeat."""
        self._is_paused = True

    def resume(self) -> None:
        """Ask `grant_for` again after it. Safe to repeat."""
        self._is_paused = False
