"""The permits of a consumer without a queue: one for each receive that waits."""

from __future__ import annotations

__all__ = ["ZeroQueueBalance"]


class ZeroQueueBalance:
    """The permits that the broker still has. A permit that a cancelled receive left there serves the next receive."""

    __slots__ = ("_is_paused", "outstanding")

    def __init__(self, *, paused: bool = False) -> None:
        # permits at the broker; below 0 after a discarded batch cost more than was granted
        self.outstanding = 0
        self._is_paused = paused

    @property
    def is_paused(self) -> bool:
        """Whether no Flow is sent, even if receives wait."""
        return self._is_paused

    def attached(self) -> None:
        """Begin on a new connection, where the broker has no permits."""
        self.outstanding = 0

    def spent(self, permits: int) -> None:
        """Count the permits that a delivery cost."""
        self.outstanding -= permits

    def grant_for(self, waiting: int) -> int:
        """Return the permits to send in one Flow now, so that this many receives can be served; 0 for none."""
        missing = waiting - self.outstanding
        if self._is_paused or waiting == 0 or missing <= 0:
            return 0
        self.outstanding = waiting
        return missing

    def pause(self) -> None:
        """Send no Flow until `resume`. Safe to repeat."""
        self._is_paused = True

    def resume(self) -> None:
        """Allow Flows again; call `grant_for` afterwards. Safe to repeat."""
        self._is_paused = False
