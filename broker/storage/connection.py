"""Connections of the broker to PostgreSQL."""

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

# By default, psycopg wakes every 0.1 s to check for Ctrl-C. A longer interval does not delay answers.
_WAKE_S: Final = 5.0

_KEEPALIVE = {  # The client notices a lost server within 15 s
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "connect_timeout": 5,
}
# By default, the server notices a lost client only after two hours, and keeps the client's locks until then.
_SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=15000"
)


def keep_alive(conninfo: str) -> dict[str, Any]:
    """Return parameters that let client and server notice a lost connection within 15 s."""
    options = conninfo_to_dict(conninfo).get("options") or ""
    return {**_KEEPALIVE, "options": f"{_SERVER_KEEPALIVE} {options}".strip()}


class _Connection(AsyncConnection[TupleRow]):
    async def wait(self, gen: PQGen[T], interval: float = _WAKE_S, timeout: float | None = None) -> T:
        return await super().wait(gen, interval=interval, timeout=timeout)


async def connect(conninfo: str, *, name: str, options: str = "") -> Connection:
    """Open a connection with these server options. Raises psycopg.OperationalError."""
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
    """Return whether a failed statement may have committed.

    If the server reports an error and keeps running, the statement has not committed. If psycopg cannot convert the
    values, it sends nothing.
    """
    if is_closed:
        return True
    sqlstate = error.sqlstate
    if sqlstate is None:
        return not isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError))
    return sqlstate.startswith(("57P", "08"))
