"""Who the client of a binary connection is: CONNECT, and AUTH_CHALLENGE when its credentials expire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.core.errors import AuthenticationFailed, BrokerError
from broker.doors.credentials_watch import CredentialsWatch
from broker.doors.server_errors import server_error

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.access.principal import Principal
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.wire import events
    from broker.doors.guard import GuardedBroker
    from broker.doors.ports import BrokerPort

__all__ = ["ConnectionAuthentication"]

REFRESH_MARKER: Final = b"PulsarAuthRefresh"  # the challenge that asks for new credentials of the same method
REFRESH_TIMEOUT_S: Final = 30.0


class ConnectionAuthentication:
    """Unlocks the guard of one connection, and closes the connection when its credentials end."""

    def __init__(
        self,
        broker: BrokerPort,
        guard: GuardedBroker,
        peer: Peer,
        *,
        call_later: Timer,
        certificate_name: str,
    ) -> None:
        """`certificate_name` is the common name of the client's checked certificate; "" = it showed none."""
        self._broker = broker
        self._guard = guard
        self._peer = peer
        self._call_later = call_later
        self._certificate_name = certificate_name
        self._can_refresh = False
        self._refresh: asyncio.TimerHandle | None = None  # set while the client owes new credentials
        self._watch = CredentialsWatch(
            broker, guard, call_later=call_later, on_expired=self._expired, on_refused=self._refused
        )

    def on_connect(self, event: events.Connect) -> None:
        """Answer CONNECTED. Raises AuthenticationFailed, which closes the connection."""
        try:
            self._guard.principal = self._authenticate(event)
        except AuthenticationFailed:
            self._broker.refused_requests[type(event).__name__] += 1
            raise
        self._can_refresh = event.supports_auth_refresh
        self._peer.engine.send_connected()
        self._watch.begin()

    def on_auth_response(self, event: events.AuthResponse) -> None:
        """Take new credentials. Raises AuthenticationFailed, which closes the connection."""
        before = self._guard.principal
        after = self._authenticate(event)
        if before is not None and after.role != before.role:
            raise AuthenticationFailed(
                f"the new credentials are for {after.role!r} and not for {before.role!r}: connect again"
            )
        self._stop_refresh()
        self._guard.principal = after
        self._watch.begin()

    def stop(self) -> None:
        """Stop all timers: the connection is lost."""
        self._stop_refresh()
        self._watch.stop()

    def _authenticate(self, event: events.Connect | events.AuthResponse) -> Principal:
        method = event.auth_method if event.auth_method != "none" else None
        return self._broker.access.authenticate(
            method,
            event.auth_data or b"",
            self._broker.clock.now_ms(),
            certificate_name=self._certificate_name,
        )

    def _expired(self) -> None:
        principal = self._guard.principal
        if not self._can_refresh or principal is None:
            self._refused(AuthenticationFailed("the credentials have expired: connect again with new ones"))
            return
        self._refresh = self._call_later(REFRESH_TIMEOUT_S, self._refresh_missing)
        self._peer.engine.send_auth_challenge(principal.method, REFRESH_MARKER)
        self._peer.written()

    def _refresh_missing(self) -> None:
        self._refused(
            AuthenticationFailed(
                f"the credentials have expired, and no new ones came within {REFRESH_TIMEOUT_S:g} s"
            )
        )

    def _stop_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None

    def _refused(self, error: BrokerError) -> None:
        self._peer.fail(server_error(error), str(error))
