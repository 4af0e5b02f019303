"""Celery's messages in Vela's own PostgreSQL: kombu's SQLAlchemy transport with six fixes.

- The polling interval is a class attribute: as a transport option it reaches `create_engine`, which refuses it.
- A message is deleted when it is taken. kombu marks it and keeps it for ever.
- One statement takes a message, and skips those that another worker has locked.
- Several processes may create the tables and queues at once.
- A queue's id is remembered instead of asked for ten times a second.
- The transport reconnects when the server goes away and comes back.
"""

from __future__ import annotations

from json import loads
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport.sqlalchemy import Channel as SqlChannel
from kombu.transport.sqlalchemy import Transport as SqlTransport
from kombu.transport.sqlalchemy.models import metadata
from kombu.transport.virtual import Transport as VirtualTransport
from sqlalchemy import create_engine, delete, func, select
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError
from sqlalchemy.orm import sessionmaker

from config.environment import ProjectSettings

__all__ = ["Channel", "Transport", "broker_url"]

SCHEME = "velapg"
_TABLES_LOCK = 0x76656C61  # advisory lock, held while the tables are created


class Channel(SqlChannel):
    """Queues as rows."""

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._queue_ids: dict[str, int] = {}

    def _open(self) -> tuple[Any, Any]:
        url = self.connection.client.hostname
        if url not in self._engines:
            engine = create_engine(url, pool_size=2, max_overflow=2)
            with engine.begin() as connection:
                connection.execute(select(func.pg_advisory_xact_lock(_TABLES_LOCK)))
                metadata.create_all(connection)
            self._engines[url] = engine, sessionmaker(bind=engine, expire_on_commit=False)
        pair: tuple[Any, Any] = self._engines[url]
        return pair

    def _get_or_create(self, queue: str) -> Any:
        try:
            return super()._get_or_create(queue)
        except IntegrityError:  # another process created the queue between the look and the insert
            self.session.rollback()
            return super()._get_or_create(queue)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        if queue not in self._queue_ids:
            self._queue_ids[queue] = self._get_or_create(queue).id
            self.session.commit()
        message = self.message_cls
        # With `=` the subquery runs once, before the delete. With IN the planner may run it for each row, and SKIP
        # LOCKED then finds another message each time: the worker got several at once, failed, and was restarted.
        oldest = (
            select(message.id)
            .where(message.queue_id == self._queue_ids[queue], message.visible)
            .order_by(message.sent_at, message.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        try:
            payload = self.session.execute(
                delete(message).where(message.id == oldest.scalar_subquery()).returning(message.payload)
            ).scalar_one_or_none()
            self.session.commit()
        except BaseException:
            self.session.rollback()
            raise
        if payload is None:
            raise Empty
        return loads(payload)


class Transport(SqlTransport):
    """kombu's `sqla` transport with Vela's channel."""

    Channel = Channel
    polling_interval = 0.1  # seconds between looks at an empty queue
    patience_s = 0.5  # how often a worker that waits for messages checks whether it should stop
    # kombu's own errors too: after its "channel disconnected" beat must reconnect, or it never sends again.
    connection_errors: tuple[Any, ...] = (
        OperationalError,
        InterfaceError,
        *VirtualTransport.connection_errors,
    )

    def establish_connection(self) -> Any:
        """Connect at once, where kombu waits for the first use: callers pause between attempts only if this fails."""
        connection = super().establish_connection()
        session = self._avail_channels[-1].session
        try:
            session.connection()
        finally:
            session.rollback()
        return connection

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Return sooner than kombu's: Celery waits 2 s here, and a stop waits for that."""
        patience_s = self.patience_s if timeout is None else min(timeout, self.patience_s)
        return super().drain_events(connection, timeout=patience_s, **kwargs)


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def broker_url(settings: ProjectSettings) -> str:
    """Return VELA_CELERY_BROKER_URL, a Redis for example, or else the URL of Vela's own database."""
    if settings.celery_broker_url:
        return settings.celery_broker_url
    return f"{SCHEME}+postgresql+psycopg://{settings.database_address.partition('://')[2]}"
