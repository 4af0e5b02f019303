"""The permits of a consumer without a queue: one for each receive that waits."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ZeroQueueBalance"]


class ZeroQueueBalance:
    """The permits that the broker still has. A permit that a cancelled receive left there serves the next receive."""

    __slots__ = ("_is_paused", "_wanted", "at_broker")

    size = 1

    def __init__(self, wanted: Callable[[], int], *, paused: bool = False) -> None:
        """`wanted` returns how many messages would be taken now. It is 0 without a connection."""
        self._wanted = wanted
        # permits at the broker; below 0 after a discarded batch cost more than was granted
        self.at_broker = 0
        self._is_paused = paused

    @property
    def is_paused(self) -> bool:
        """Whether no Flow is sent, even if receives wait."""
        return self._is_paused

    def available(self, waiting: int) -> int:
        """Return the permits at the broker. There is room only for messages that were asked for."""
        return self.at_broker

    def attached(self) -> int:
        """Begin on a new connection, where the broker has no permits."""
        self.at_broker = 0
        return self.grant_for(self._wanted())

    def spent(self, permits: int) -> None:
        """Count the permits that a delivery cost."""
        self.at_broker -= permits

    def give_back(self, permits: int) -> int:
        """Return what to grant after messages were taken or dropped: only what is still wanted."""
        return self.grant_for(self._wanted())

    def take_back(self, permits: int) -> None:
        """Do nothing, because nothing was granted for these messages."""

    def emptied(self) -> None:
        """Do nothing, because the count does not include waiting messages."""

    def ran_dry(self) -> int:
        """Ask for a message for each call that waits, or for the listener."""
        return self.grant_for(self._wanted())

    def grant_for(self, waiting: int) -> int:
        """Return the permits to send in one Flow now, so that this many receives can be served; 0 for none."""
        missing = waiting - self.at_broker
        if self._is_paused or waiting == 0 or missing <= 0:
            return 0
        self.at_broker = waiting
        return missing

    def pause(self) -> None:
        """Send no Flow until `resume`. Safe to repeat."""
        self._is_paused = True

    def resume(self) -> int:
        """Allow Flows again. Safe to repeat."""
        self._is_paused = False
        return self.grant_for(self._wanted())
