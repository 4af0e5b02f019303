"""Count or refuse each new connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.core.errors import TooManyConnections

if TYPE_CHECKING:
    from broker.listening.connection_limits import ConnectionLimits, ConnectionPlace

__all__ = ["Arrival"]


class Arrival(asyncio.Protocol):
    """Passes each counted connection to the protocol that `accept` returns.

    That protocol must call `ConnectionPlace.leave` when the connection ends.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        accept: Callable[[ConnectionPlace], asyncio.Protocol],
        refuse: Callable[[asyncio.Transport, TooManyConnections], None],
    ) -> None:
        self._limits = limits
        self._accept = accept
        self._refuse = refuse

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        try:
            place = self._limits.admit(peer[0])
        except TooManyConnections as error:
            self._refuse(transport, error)
            return
        protocol = self._accept(place)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
