"""Synchronous connections for processes other than the broker."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

from broker.storage.connection import keep_alive
from broker.storage.conninfo import conninfo

__all__ = ["ShortConnection", "short_connection"]

ShortConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


def short_connection(name: str, *, statement_timeout_ms: int = 0) -> ShortConnection:
    """Open a connection in autocommit mode. Raises psycopg.OperationalError.

    `name` appears in pg_stat_activity. A timeout of 0 means the server's default.
    """
    where = conninfo()
    parameters = keep_alive(where)
    if statement_timeout_ms:
        parameters["options"] += f" -c statement_timeout={statement_timeout_ms}"
    return psycopg.connect(where, autocommit=True, application_name=name, **parameters)
