"""Connections to PostgreSQL, opened on first use and reopened after they are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import psycopg

from broker.storage.away import is_away
from broker.storage.connection import Connection, connect

__all__ = ["ConnectionPool", "first_line", "repeat_until_done"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_FIRST_S = 0.05
_RETRY_MOST_S = 1.0


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class ConnectionPool:
    """At most `size` connections, lent in the order of requests."""

    def __init__(self, conninfo: str, *, name: str, size: int) -> None:
        self._conninfo = conninfo
        self._name = name
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """Borrow a connection. Raises psycopg.OperationalError if the database cannot be reached."""
        async with self._places:
            connection = self._idle.pop() if self._idle else None
            if connection is None or connection.closed:
                connection = await connect(self._conninfo, name=self._name)
            try:
                yield connection
            except BaseException:
                # A cancelled or failed statement may leave the session in an unknown state.
                await connection.close()
                raise
            if not connection.closed:
                self._idle.append(connection)

    async def close(self) -> None:
        """Close the idle connections. Connections in use stay open."""
        while self._idle:
            await self._idle.pop().close()


async def repeat_until_done(
    pool: ConnectionPool, call: Callable[[Connection], Awaitable[T]], *, what: str
) -> T:
    """Make a call, and repeat it while the database is unavailable. The call must be safe to repeat.

    `what` names the call in the log. If the call fails for another reason, raises its error without repeating the call.
    """
    delay_s = _RETRY_FIRST_S
    while True:
        try:
            async with pool.use() as connection:
                return await call(connection)
        except psycopg.Error as error:
            if not is_away(error):
                raise
            logger.warning("%s: the database is unavailable (%s); trying again", what, first_line(error))
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _RETRY_MOST_S)
