"""Limits on the connections of one process."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.core.errors import TooManyConnections
from broker.listening.client_rates import ClientRates
from broker.listening.loop_time import LoopTime

if TYPE_CHECKING:
    from broker.door_settings import DoorSettings

__all__ = ["ConnectionLimits", "ConnectionPlace"]

logger = logging.getLogger(__name__)

# A flood of connections must not fill the log.
_LOG_PERIOD_S: Final = 10.0


class ConnectionLimits:
    """Counts open connections, in total and by address. All ports of a process share one object."""

    def __init__(self, settings: DoorSettings, loop_time: LoopTime | None = None) -> None:
        self.loop_time = loop_time or LoopTime()
        self._most = settings.max_connections
        self._most_per_address = settings.max_connections_per_address
        self._by_address: Counter[str] = Counter()
        self._logged_s: dict[str, float] = {}
        self.open = 0
        self.times_reached: Counter[str] = Counter()
        self.failed_tls_handshakes = 0
        self.rates = ClientRates(settings, self.reached)

    def admit(self, address: str) -> ConnectionPlace:
        """Count a connection from this IP address. Raises TooManyConnections above a limit."""
        if self._most and self.open >= self._most:
            raise self._refusal(
                "VELA_MAX_CONNECTIONS", f"this process serves {self._most} connections", address
            )
        if self._most_per_address and self._by_address[address] >= self._most_per_address:
            raise self._refusal(
                "VELA_MAX_CONNECTIONS_PER_ADDRESS",
                f"{address} has {self._most_per_address} connections",
                address,
            )
        self.open += 1
        self._by_address[address] += 1
        return ConnectionPlace(self, address)

    def left(self, address: str) -> None:
        """Stop counting one connection from this address."""
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def reached(self, setting: str, what: str, peer: str) -> None:
        """Record that `peer` reached a limit."""
        self.times_reached[setting] += 1
        now_s = time.monotonic()
        if now_s - self._logged_s.get(setting, -_LOG_PERIOD_S) >= _LOG_PERIOD_S:
            self._logged_s[setting] = now_s
            logger.warning(
                "%s: %s (%s, reached %s times so far)",
                peer,
                what,
                setting,
                self.times_reached[setting],
                extra={"client": peer, "setting": setting},
            )

    def _refusal(self, setting: str, what: str, address: str) -> TooManyConnections:
        self.reached(setting, f"refused, because {what}", address)
        return TooManyConnections(f"{what}, the most that {setting} allows: close some, or try again later")


class ConnectionPlace:
    """One counted connection."""

    __slots__ = ("_address", "_limits")

    def __init__(self, limits: ConnectionLimits, address: str) -> None:
        self._limits: ConnectionLimits | None = limits
        self._address = address

    def leave(self) -> None:
        """Stop counting the connection. Safe to repeat."""
        if self._limits is not None:
            self._limits.left(self._address)
            self._limits = None
