"""Connections to PostgreSQL as the broker uses them: asynchronous, autocommit, quick to notice a dead peer."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

__all__ = ["Connection", "connect", "is_outcome_unknown"]

Connection = AsyncConnection[TupleRow]

_KEEPALIVE = {  # a lost host is noticed within 15 s (design 6)
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "connect_timeout": 5,
}
# The server's side of the same socket. Its default is the system's two hours, for which a host that vanished would keep
# the broker lock, and a statement cut off half-way its row locks.
_SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=15000"
)


async def connect(conninfo: str, *, name: str) -> Connection:
    """Open one connection; `name` is what pg_stat_activity shows. Raises psycopg.OperationalError."""
    options = conninfo_to_dict(conninfo).get("options") or ""
    connection = await AsyncConnection.connect(
        conninfo,
        autocommit=True,
        prepare_threshold=2,
        application_name=f"vela broker: {name}",
        options=f"{_SERVER_KEEPALIVE} {options}".strip(),
        **_KEEPALIVE,  # type: ignore[arg-type]
    )
    connection.prepared_max = 500
    return connection


def is_outcome_unknown(error: psycopg.Error, connection: Connection) -> bool:
    """Whether a failed statement may have committed all the same.

    Known: the server answered with an error of its own and goes on living, or the statement never left this process
    because a value could not be bound. Unknown: the connection died, or the server is going down (class 57P), with the
    statement under way.
    """
    if connection.closed or connection.broken:
        return True
    sqlstate = error.sqlstate
    if sqlstate is None:
        return not isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError))
    return sqlstate.startswith(("57P", "08"))
