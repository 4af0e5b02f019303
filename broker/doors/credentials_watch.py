"""Watch the credentials and permissions of an open connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.doors.guard import GuardedBroker
    from broker.doors.ports import BrokerPort

__all__ = ["CredentialsWatch"]

_LONGEST_WAIT_S: Final = 60.0  # Check the clock at least this often, because an operator may change it


class CredentialsWatch:
    """Calls `on_expired` when the credentials expire, and `on_refused` when a check fails.

    It checks the client whenever permissions or passwords change, or a token is revoked.
    """

    def __init__(
        self,
        broker: BrokerPort,
        guard: GuardedBroker,
        *,
        call_later: Timer,
        on_expired: Callable[[], None],
        on_refused: Callable[[BrokerError], None],
    ) -> None:
        self._broker = broker
        self._guard = guard
        self._call_later = call_later
        self._on_expired = on_expired
        self._on_refused = on_refused
        self._timer: asyncio.TimerHandle | None = None
        self._unwatch: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Watch the guard's client. Call this method again when the client has sent new credentials."""
        self.stop()
        if self._broker.access.is_on:
            self._unwatch = self._broker.access.watch(self._recheck)
            self._wait()

    def stop(self) -> None:
        """Stop watching. Safe to repeat."""
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        principal = self._guard.principal
        if principal is None or principal.expires_ms is None:
            return
        left_ms = principal.expires_ms - self._broker.clock.now_ms()
        if left_ms <= 0:
            self._on_expired()
        else:
            self._timer = self._call_later(min(left_ms, _LONGEST_WAIT_S * 1000) / 1000, self._wait)

    def _recheck(self) -> None:
        try:
            self._guard.recheck()
        except BrokerError as error:
            self._on_refused(error)
