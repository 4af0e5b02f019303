"""PostgreSQL connections of Celery tasks. A Celery process keeps its connections between tasks.

A new connection costs 15 ms of CPU time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Final

from psycopg.pq import TransactionStatus

from broker.storage.short_connection import ShortConnection, short_connection

__all__ = ["keep_connections", "task_connection"]

_MOST_KEPT: Final = 1

_kept: defaultdict[tuple[str, int], list[ShortConnection]] | None = None


def keep_connections() -> None:
    """Make this process keep the connections of its tasks. Safe to repeat."""
    global _kept
    if _kept is None:
        _kept = defaultdict(list)


@contextmanager
def task_connection(name: str, *, statement_timeout_ms: int = 0) -> Iterator[ShortConnection]:
    """Lend a connection. After `keep_connections`, a later call with the same arguments may reuse the connection.

    A task that changes a session setting needs its own `name`, because the setting stays changed. Raises
    psycopg.OperationalError if the connection cannot be opened.
    """
    key = (name, statement_timeout_ms)
    connection = _take(key) or short_connection(name, statement_timeout_ms=statement_timeout_ms)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if _kept is None or len(_kept[key]) >= _MOST_KEPT or not _is_idle(connection):
        connection.close()
    else:
        _kept[key].append(connection)


def _take(key: tuple[str, int]) -> ShortConnection | None:
    while _kept:
        try:
            connection = _kept[key].pop()
        except IndexError:
            return None
        # If the server sent something on an idle connection, the server has most likely closed the connection.
        if not select([connection], [], [], 0)[0]:
            return connection
        connection.close()
    return None


def _is_idle(connection: ShortConnection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
