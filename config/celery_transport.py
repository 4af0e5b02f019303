"""Celery's messages in Vela's own PostgreSQL: one table, and one connection for each channel.

PostgreSQL notifies the worker of each message. The worker also looks for messages every five seconds, because a
notification may be lost.

kombu's transport over SQLAlchemy also uses tables, but it keeps every message, and finds new messages only by looking
at its tables once a second. Changing that would take more code than the statements used here, and importing SQLAlchemy
would take half of the time in which a worker starts.
"""

from __future__ import annotations

from json import dumps, loads
from math import inf
from queue import Empty
from select import select
from time import monotonic
from typing import Any, Final

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
_LOOK_EVERY_S: Final = 5.0  # in case a notification was lost
_BUSY_S: Final = 0.1  # a worker whose tasks are all under way checks after this time whether one has ended


class Channel(VirtualChannel):
    """Queues as rows. A message is deleted when a worker takes it."""

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._opened: psycopg.Connection[tuple[Any, ...]] | None = None
        self._promising: set[str] = set()  # queues that may have a message
        self._looked_s = -inf  # monotonic time of the last look into every queue

    def basic_consume(self, queue: str, *arguments: Any, **kwargs: Any) -> None:
        """Consume from a queue. The channel listens before its first look, so that it misses no message."""
        super().basic_consume(queue, *arguments, **kwargs)
        self._listen(self.session)

    @property
    def is_consuming(self) -> bool:
        """Whether this channel takes messages. Other channels only put them."""
        return bool(self._consumers)

    @property
    def is_full(self) -> bool:
        """Whether there may be messages that the worker cannot take yet, because all its tasks are under way."""
        return bool(self._promising) and not self.qos.can_consume()

    def hear(self) -> bool:
        """Read the notifications that have come, and return whether to look for a message now.

        Raises psycopg.OperationalError if the database is unavailable.
        """
        queues = set(self._active_queues)
        self._promising |= queues & {each.payload for each in self.session.notifies(timeout=0)}
        if monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = monotonic()
            self._promising |= queues
        return bool(self._promising) and self.qos.can_consume()

    def _listen(self, session: psycopg.Connection[tuple[Any, ...]]) -> None:
        session.execute(query("celery", "listen"))
        self._looked_s = -inf

    @property
    def session(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection, reopened if it was lost. Raises psycopg.OperationalError if the database is unavailable."""
        if self._opened is None or self._opened.closed:
            self._opened = _open(self.connection.client.hostname)
            if self.is_consuming:
                self._listen(self._opened)
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

    def _get_and_deliver(self, queue: str, callback: Any) -> None:
        if queue not in self._promising:
            raise Empty
        try:
            super()._get_and_deliver(queue, callback)
        except Empty:
            self._promising.discard(queue)
            raise

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
    patience_s = 0.5  # the longest wait for a message before a worker checks whether it should stop
    # kombu's own errors belong here too: beat must reconnect after "channel disconnected", or it never sends again.
    connection_errors: tuple[Any, ...] = (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        *VirtualTransport.connection_errors,
    )

    def driver_version(self) -> str:
        """Return psycopg's version."""
        return psycopg.__version__

    def establish_connection(self) -> Any:
        """Connect at once. kombu connects at the first use, but callers pause between attempts only if this fails."""
        connection = super().establish_connection()
        _ = self._avail_channels[-1].session
        return connection

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Deliver one message, waiting at most `patience_s` for it. Raises TimeoutError if none came.

        Celery asks for 2 s, but then a worker that was asked to stop would first wait for that long.
        """
        ends_s = monotonic() + (self.patience_s if timeout is None else min(timeout, self.patience_s))
        while True:
            consuming = [channel for channel in self.channels if channel.is_consuming]
            # Every channel reads its notifications, so that none is left when the wait begins.
            if ready := [channel for channel in consuming if channel.hear()]:
                try:
                    ready[0].drain_events(callback=self._deliver)
                except Empty:
                    # psycopg may have read a new notification together with the empty answer, so `select` would wait.
                    continue
                return
            left_s = ends_s - monotonic()
            if left_s <= 0:
                raise TimeoutError
            if any(channel.is_full for channel in consuming):
                left_s = min(left_s, _BUSY_S)
            select([channel.session for channel in consuming], [], [], left_s)


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def broker_url(settings: ProjectSettings) -> str:
    """Return VELA_CELERY_BROKER_URL, which may name a Redis server, or else the URL of Vela's own database."""
    return settings.celery_broker_url or f"{SCHEME}+{settings.database_address}"
