"""The first step of an accepted connection: count it, or refuse it before it costs more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.core.errors import TooManyConnections

if TYPE_CHECKING:
    from broker.listening.connection_limits import ConnectionLimits, ConnectionPlace

__all__ = ["Arrival"]


class Arrival(asyncio.Protocol):
    """Passes a counted connection on to the protocol that `accept` makes.

    That protocol frees the connection's place when the connection is lost.
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
        """Count the connection, or refuse it."""
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
