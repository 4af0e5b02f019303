"""The broker's connections to PostgreSQL: asynchronous, in autocommit mode, and quick to notice a lost host."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

__all__ = ["Connection", "connect", "is_outcome_unknown", "keep_alive"]

Connection = AsyncConnection[TupleRow]
T = TypeVar("T")

# A wait sleeps at most this long, and an answer ends it at once. psycopg's default is 0.1 s, to check for Ctrl-C.
_WAKE_S: Final = 5.0

_KEEPALIVE = {  # a lost host is noticed within 15 s
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "connect_timeout": 5,
}
# The same for the server's side of the socket. By default the server's system waits two hours before it notices a lost
# host. Until then, that host would keep the broker lock, and its unfinished statements would keep their row locks.
_SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=15000"
)


def keep_alive(conninfo: str) -> dict[str, Any]:
    """Return the parameters with which both sides of a connection notice a lost host within 15 s."""
    options = conninfo_to_dict(conninfo).get("options") or ""
    return {**_KEEPALIVE, "options": f"{_SERVER_KEEPALIVE} {options}".strip()}


class _Connection(AsyncConnection[TupleRow]):
    """A connection that costs next to nothing while it waits."""

    async def wait(self, gen: PQGen[T], interval: float = _WAKE_S, timeout: float | None = None) -> T:
        return await super().wait(gen, interval=interval, timeout=timeout)


async def connect(conninfo: str, *, name: str, options: str = "") -> Connection:
    """Open one connection with these server `options`. pg_stat_activity shows it as `name` after "vela broker: ".

    Raises psycopg.OperationalError.
    """
    parameters = keep_alive(conninfo)
    connection = await _Connection.connect(
        conninfo,
        autocommit=True,
        prepare_threshold=2,
        application_name=f"vela broker: {name}",
        **{**parameters, "options": f"{parameters['options']} {options}".strip()},
    )
    connection.prepared_max = 500
    return connection


def is_outcome_unknown(error: psycopg.Error, *, is_closed: bool) -> bool:
    """Return whether a failed statement may have committed. `is_closed`: whether its connection is closed now.

    The statement did not commit if the server answered with an error and keeps running, or if the statement never left
    this process because a value could not be bound. It may have committed if the connection died (the server may report
    that as class 08), or if the server was shutting down (class 57P) while the statement was under way.
    """
    if is_closed:
        return True
    sqlstate = error.sqlstate
    if sqlstate is None:
        return not isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError))
    return sqlstate.startswith(("57P", "08"))
