"""Synchronous connections for processes other than the broker. Each call opens a new connection."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

from broker.storage.connection import keep_alive
from broker.storage.conninfo import conninfo

__all__ = ["ShortConnection", "short_connection"]

ShortConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


def short_connection(name: str, *, statement_timeout_ms: int = 0) -> ShortConnection:
    """Open a connection in autocommit mode. pg_stat_activity shows it as `name`, and a `with` block closes it.

    The server ends a statement after `statement_timeout_ms`; 0 = the server's default. Raises psycopg.OperationalError.
    """
    where = conninfo()
    parameters = keep_alive(where)
    if statement_timeout_ms:
        parameters["options"] += f" -c statement_timeout={statement_timeout_ms}"
    return psycopg.connect(where, autocommit=True, application_name=name, **parameters)
