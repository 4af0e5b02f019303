"""Celery's messages in Vela's own PostgreSQL: one table, and one connection for each channel.

kombu's transport over SQLAlchemy does this too, but it keeps every message, may take several at once, and asks for a
queue's id ten times a second. To change that takes more code than the five statements used here, and importing
SQLAlchemy takes half of a worker's start.
"""

from __future__ import annotations

from json import dumps, loads
from queue import Empty
from typing import Any

import psycopg
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport.virtual import Channel as VirtualChannel
from kombu.transport.virtual import Transport as VirtualTransport

from broker.storage.connection import keep_alive
from broker.storage.queries import query
from config.environment import ProjectSettings

__all__ = ["Channel", "Transport", "broker_url"]

SCHEME = "velapg"
# The advisory lock for creating the table, because several processes may start at once.
_TABLE_LOCK = 0x76656C61


class Channel(VirtualChannel):
    """Queues as rows. A message is deleted when it is taken."""

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._opened: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def session(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection, opened again if it was lost. Raises psycopg.OperationalError if the database is away."""
        if self._opened is None or self._opened.closed:
            self._opened = _open(self.connection.client.hostname)
        return self._opened

    def close(self) -> None:
        """Put back the messages that were taken and not acknowledged, then close the connection."""
        try:
            super().close()
        finally:
            if self._opened is not None:
                self._opened.close()

    def _put(self, queue: str, message: dict[str, Any], **_kwargs: Any) -> None:
        self.session.execute(query("celery", "put"), {"queue": queue, "payload": dumps(message)})

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        row = self.session.execute(query("celery", "take"), {"queue": queue}).fetchone()
        if row is None:
            raise Empty
        return loads(row[0])

    def _size(self, queue: str) -> int:
        row = self.session.execute(query("celery", "size"), {"queue": queue}).fetchone()
        return int(row[0]) if row else 0

    def _purge(self, queue: str) -> int:
        return self.session.execute(query("celery", "purge"), {"queue": queue}).rowcount


def _open(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect, and create the table if there is none."""
    opened = psycopg.connect(url, autocommit=True, application_name="vela celery", **keep_alive(url))
    try:
        with opened.transaction():
            opened.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLE_LOCK,))
            opened.execute(query("celery", "create"))
    except BaseException:
        opened.close()
        raise
    return opened


class Transport(VirtualTransport):
    """kombu's virtual transport with Vela's channel."""

    Channel = Channel
    can_parse_url = True  # the channel gets the URL as it is
    driver_type = "sql"
    driver_name = "psycopg"
    polling_interval = 0.1  # seconds between looks at an empty queue
    patience_s = 0.5  # the longest wait for a message before a worker checks whether it should stop
    # kombu's own errors too: after its "channel disconnected" beat must reconnect, or it never sends again.
    connection_errors: tuple[Any, ...] = (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        *VirtualTransport.connection_errors,
    )

    def driver_version(self) -> str:
        """Return psycopg's version."""
        return psycopg.__version__

    def establish_connection(self) -> Any:
        """Connect at once, where kombu waits for the first use: callers pause between attempts only if this fails."""
        connection = super().establish_connection()
        _ = self._avail_channels[-1].session
        return connection

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Wait at most `patience_s`. Celery asks for 2 s, and a stop of the worker would wait for that."""
        patience_s = self.patience_s if timeout is None else min(timeout, self.patience_s)
        return super().drain_events(connection, timeout=patience_s, **kwargs)


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def broker_url(settings: ProjectSettings) -> str:
    """Return VELA_CELERY_BROKER_URL, which may name a Redis, or else the URL of Vela's own database."""
    return settings.celery_broker_url or f"{SCHEME}+{settings.database_address}"
