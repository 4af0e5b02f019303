"""Limit the requests per second that the broker reads from a binary connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.doors.binary.peer import Peer
    from broker.doors.ports import BrokerPort

__all__ = ["RequestRate"]

_SECOND_S: Final = 1.0


class RequestRate:
    """Pauses reading from a connection that has used up its requests for the current second.

    Refusing the requests instead would break clients that open thousands of topics when they start.
    """

    def __init__(self, broker: BrokerPort, peer: Peer, call_later: Timer) -> None:
        self._rate = broker.settings.connection_request_rate
        self._limits = broker.connections
        self._peer = peer
        self._call_later = call_later
        self._requests = 0
        self._is_pausing = False

    def limited(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a handler that counts each event as a request. Without a limit, return `handle` itself."""
        if not self._rate:
            return handle

        def count_and_handle(event: Any) -> None:
            self._count()
            handle(event)

        return count_and_handle

    def _count(self) -> None:
        if not self._requests:
            self._call_later(_SECOND_S, self._next_second)
        self._requests += 1
        if self._requests == self._rate:
            self._is_pausing = True
            self._limits.reached(
                "VELA_CONNECTION_REQUEST_RATE",
                f"sent {self._rate} requests within a second, so the broker reads no more until the second is over",
                str(self._peer),
            )
            self._peer.gate.throttled(True)

    def _next_second(self) -> None:
        self._requests = 0
        if self._is_pausing:
            self._is_pausing = False
            self._peer.gate.throttled(False)
