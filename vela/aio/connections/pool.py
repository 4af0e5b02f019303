"""The connections of a client. Callers share them, and attempts to connect, unless `connections_per_broker` is 0."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from vela.aio.connections.connection import Connection
from vela.aio.connections.opening import open_connection
from vela.aio.connections.settings import ConnectionSettings
from vela.core.service_url import BrokerAddress
from vela.errors import AlreadyClosed

__all__ = ["ConnectionPool", "Target"]

_SWEEPS: Final = 4  # how often to look for idle connections within the idle time


@dataclass(frozen=True, slots=True)
class Target:
    """A broker, and the address at which to reach it."""

    address: BrokerAddress  # where to connect to
    broker: str | None = None  # host:port of the broker, if `address` is a proxy


class ConnectionPool:
    """The connections of one client. Use it on the client's event loop."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._open: dict[tuple[Target, int], Connection] = {}
        self._attempts: dict[tuple[Target, int], asyncio.Task[Connection]] = {}
        self._opening: set[Connection] = set()
        self._unpooled: set[Connection] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._right: set[BrokerAddress] = set()  # addresses to which a connection succeeded
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` or `drop` was called, so that there will be no more connections."""
        return self._is_closed

    @property
    def connections(self) -> list[Connection]:
        """Return all open connections."""
        return [*self._open.values(), *self._unpooled]

    def under_way(self) -> str:
        """Describe the connections that are being opened, for errors; "" if there are none."""
        return "; ".join(sorted(connection.standing for connection in self._opening))

    async def get(self, target: Target) -> Connection:
        """Return a connection, opened if necessary. If one waiting caller is cancelled, the others still get theirs.

        Raises ConnectError, ReadError, AuthenticationError, ErrorGettingAuthenticationData or another refusal of the
        broker, and AlreadyClosed after `close`.
        """
        self._require_open()
        slots = self._settings.connections_per_broker
        if slots == 0:
            connection = await self._connect(target)
            self._unpooled.add(connection)
            return connection
        key = (target, random.randrange(slots) if slots > 1 else 0)  # noqa: S311 - spreading load, no secret
        found = self._open.get(key)
        if found is not None:
            found.idle_since = None
            return found
        attempt = self._attempts.get(key)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._attempt(key))
            self._attempts[key] = attempt
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                self._require_open()
            raise

    async def _attempt(self, key: tuple[Target, int]) -> Connection:
        try:
            connection = await self._connect(key[0])
            self._open[key] = connection
        finally:
            del self._attempts[key]
        self._sweep_later()
        return connection

    async def _connect(self, target: Target) -> Connection:
        settings, address = self._settings, target.address
        connection = Connection(
            address.url, client_version=settings.client_version, authentication=settings.authentication
        )
        self._opening.add(connection)
        try:
            await open_connection(
                connection,
                address,
                settings,
                proxy_to_broker_url=target.broker,
                was_right=address in self._right,
            )
        finally:
            self._opening.discard(connection)
        self._right.add(address)
        if self._is_closed:
            connection.abort(AlreadyClosed("the client is closed"))
            self._require_open()
        connection.on_lost_callback = self._forget
        return connection

    def _forget(self, connection: Connection) -> None:
        self._unpooled.discard(connection)
        for key, each in self._open.items():
            if each is connection:
                del self._open[key]
                return

    def release(self, connection: Connection) -> None:
        """Give a connection back after use. Without pooling, this closes it if nothing else uses it."""
        if connection in self._unpooled and not connection.is_used:
            self._close_later(connection)

    def _close_later(self, connection: Connection) -> None:
        self._forget(connection)
        task = asyncio.get_running_loop().create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _sweep_later(self) -> None:
        if self._sweep is None and not self._is_closed:
            self._sweep = asyncio.get_running_loop().call_later(
                self._settings.connection_max_idle_s / _SWEEPS, self._sweep_idle
            )

    def _sweep_idle(self) -> None:
        self._sweep = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._open.values()):
            if connection.is_used:
                connection.idle_since = None
            elif connection.idle_since is None:
                connection.idle_since = now
            elif now - connection.idle_since >= self._settings.connection_max_idle_s:
                self._close_later(connection)
        if self._open:
            self._sweep_later()

    def _require_open(self) -> None:
        if self._is_closed:
            raise AlreadyClosed("the client is closed")

    def drop(self) -> None:
        """Close all connections at once and cancel attempts. You may call `close` afterwards."""
        self._is_closed = True
        for attempt in self._attempts.values():
            attempt.cancel()
        for connection in self.connections:
            connection.abort(AlreadyClosed("the client is shut down"))

    async def close(self) -> None:
        """Close all connections and cancel attempts. Safe to repeat."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        for connection in self.connections:
            self._close_later(connection)
        await asyncio.gather(*attempts, *self._closing, return_exceptions=True)
