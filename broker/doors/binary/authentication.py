"""Authenticate the client of a binary connection, and renew its credentials when they expire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from broker.core.access.credentials import Credentials
from broker.core.errors import AuthenticationFailed, BrokerError
from broker.doors.binary.wire import events
from broker.doors.credentials_watch import CredentialsWatch
from broker.doors.server_errors import server_error

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.access.credentials import ClientCertificate
    from broker.core.access.principal import Principal
    from broker.doors.binary.peer import Peer
    from broker.doors.guard import GuardedBroker
    from broker.doors.ports import BrokerPort

__all__ = ["ConnectionAuthentication"]

logger = logging.getLogger(__name__)

REFRESH_MARKER: Final = b"PulsarAuthRefresh"
REFRESH_TIMEOUT_S: Final = 30.0
_LOOK_AGAIN_S: Final = 1.0
# While the broker does not read from a client, for example because of a rate limit, it postpones the timeout, but at
# most this many times. Without a maximum, a client that always exceeds a rate limit could stay connected with expired
# credentials.
_MOST_LOOKS: Final = 600


class ConnectionAuthentication:
    """Authenticates the client of one connection."""

    def __init__(
        self,
        broker: BrokerPort,
        guard: GuardedBroker,
        peer: Peer,
        *,
        call_later: Timer,
        certificate: ClientCertificate | None,
    ) -> None:
        self._broker = broker
        self._guard = guard
        self._peer = peer
        self._call_later = call_later
        self._credentials = Credentials(certificate=certificate, host=peer.address.rpartition(":")[0])
        self._can_refresh = False
        self._check: asyncio.Task[None] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._looks = 0
        self._watch = CredentialsWatch(
            broker, guard, call_later=call_later, on_expired=self._expired, on_refused=self._refused
        )

    def on_connect(self, event: events.Connect) -> None:
        """Check the client's credentials and send CONNECTED. Raises AuthenticationFailed or NotAuthorized.

        A slow check runs as a task, which closes the connection if the check fails.
        """
        self._can_refresh = event.supports_auth_refresh
        self._credentials = replace(
            self._credentials,
            method=_method(event),
            data=event.auth_data or b"",
            original_role=event.original_role,
            original_method=event.original_method,
            original_data=event.original_data,
        )
        self._authenticate(event, self._connected)

    def on_auth_response(self, event: events.AuthResponse) -> None:
        """Check the client's new credentials. Raises the same errors as `on_connect`."""
        data = event.auth_data or b""
        if self._credentials.original_data and self._broker.settings.authenticate_original_auth_data:
            # A proxy passes the challenge on to its client, so the answer contains that client's credentials.
            self._credentials = replace(self._credentials, original_method=_method(event), original_data=data)
        else:
            self._credentials = replace(self._credentials, method=_method(event), data=data)
        self._authenticate(event, self._renewed)

    def stop(self) -> None:
        """Stop all timers and checks."""
        self._stop_refresh()
        self._watch.stop()
        if self._check is not None:
            self._check.cancel()

    def _connected(self, principal: Principal) -> None:
        self._guard.principal = principal
        self._peer.engine.send_connected()
        self._watch.begin()

    def _renewed(self, after: Principal) -> None:
        before = self._guard.principal
        if before is not None and (after.role, after.proxy_role) != (before.role, before.proxy_role):
            raise AuthenticationFailed(
                f"the new credentials are for {after.role!r} and not for {before.role!r}: connect again"
            )
        self._stop_refresh()
        self._guard.principal = after
        self._watch.begin()

    def _authenticate(
        self, event: events.Connect | events.AuthResponse, let_in: Callable[[Principal], None]
    ) -> None:
        credentials = self._credentials
        try:
            principal = self._broker.access.authenticate_now(credentials, self._broker.clock.now_ms())
        except BrokerError:
            self._count_refusal(event)
            raise
        if principal is not None:
            let_in(principal)
            return
        # Stop reading, because later commands must wait for the check.
        self._peer.gate.throttled(True)
        self._check = asyncio.get_running_loop().create_task(self._wait(event, credentials, let_in))

    async def _wait(
        self,
        event: events.Connect | events.AuthResponse,
        credentials: Credentials,
        let_in: Callable[[Principal], None],
    ) -> None:
        try:
            let_in(await self._broker.access.authenticate(credentials, self._broker.clock.now_ms()))
        except BrokerError as error:
            self._count_refusal(event)
            self._refused(error)
        except Exception:
            logger.exception("%s: checking the client's credentials failed", self._peer.address)
            self._refused(BrokerError("internal error; see the broker's log"))
        finally:
            self._check = None
            self._peer.written()
            self._peer.gate.throttled(False)

    def _count_refusal(self, event: events.Connect | events.AuthResponse) -> None:
        if isinstance(event, events.Connect):
            self._broker.refused_requests[type(event).__name__] += 1

    def _expired(self) -> None:
        principal = self._guard.principal
        if not self._can_refresh or principal is None or not principal.can_renew:
            self._refused(AuthenticationFailed("the credentials have expired: connect again with new ones"))
            return
        self._looks = 0
        self._refresh = self._call_later(REFRESH_TIMEOUT_S, self._refresh_missing)
        self._peer.engine.send_auth_challenge(principal.method, REFRESH_MARKER)
        self._peer.written()

    def _refresh_missing(self) -> None:
        if not self._peer.gate.is_open and self._looks < _MOST_LOOKS:
            self._looks += 1
            self._refresh = self._call_later(_LOOK_AGAIN_S, self._refresh_missing)
            return
        waited_s = REFRESH_TIMEOUT_S + self._looks * _LOOK_AGAIN_S
        self._refused(
            AuthenticationFailed(f"the credentials have expired, and no new ones came within {waited_s:g} s")
        )

    def _stop_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None

    def _refused(self, error: BrokerError) -> None:
        self._peer.fail(server_error(error), str(error))


def _method(event: events.Connect | events.AuthResponse) -> str | None:
    return event.auth_method if event.auth_method != "none" else None
