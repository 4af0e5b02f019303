"""The broker lock, which makes one process the owner of a database's topics.

A task always waits in `notifies()` on the lock's connection, to notice when the connection is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import psycopg

from broker.conf import BrokerSettings
from broker.storage import ownership as store
from broker.storage.connection import Connection, connect
from broker.storage.pool import first_line
from broker.storage.supervised import for_ever

if TYPE_CHECKING:
    from broker.log.epochs import Epochs
    from broker.log.topic_log import TopicLog

__all__ = ["BrokerAlreadyRuns", "Ownership"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

CHANNELS = (
    "vela_act",
    "vela_tick",
    "vela_policies",
    "vela_lifetime",
    "vela_outbox",
    "vela_access",
    "vela_topics",
)
_RETRY_S = 0.2
# Do not log a shorter wait. After `kill -9` of the earlier broker, PostgreSQL frees the lock within milliseconds.
_SILENT_WAIT_S = 1.0


class BrokerAlreadyRuns(Exception):
    """Another broker has this database's lock."""


class Ownership:
    """Takes and keeps the lock. Calls `on_resumed` after it has taken a lost lock again."""

    def __init__(
        self,
        conninfo: str,
        *,
        settings: BrokerSettings,
        epochs: Epochs,
        logs: Callable[[], list[TopicLog]],
        on_notify: Callable[[str, str], None],
    ) -> None:
        self._conninfo = conninfo
        self._settings = settings
        self._epochs = epochs
        self._logs = logs
        self._on_notify = on_notify
        self._connection: Connection | None = None
        self._backends: set[int] = set()  # Pids of PostgreSQL backends that may still hold this broker's lock
        self._task: asyncio.Task[None] | None = None
        self.is_held = False
        self.on_resumed: Callable[[], None] = lambda: None

    async def acquire(self) -> None:
        """Take the lock. Wait at most `lock_wait_s` for an earlier broker to stop.

        Raises BrokerAlreadyRuns or psycopg.Error.
        """
        self._connection = await self._connect()
        loop, limit_s = asyncio.get_running_loop(), self._settings.lock_wait_s
        began_s, is_said = loop.time(), False
        while not await store.try_lock(self._connection):
            waited_s = loop.time() - began_s
            if waited_s >= limit_s:
                holder = await self._describe_holder(self._connection)
                await self._connection.close()
                raise BrokerAlreadyRuns(
                    f"another broker already runs on this database ({holder}); "
                    "stop it, or point DATABASE_URL at another database"
                )
            if waited_s >= _SILENT_WAIT_S and not is_said:
                is_said = True
                holder = await self._describe_holder(self._connection)
                logger.warning("waiting at most %s s for another broker's lock (%s)", limit_s, holder)
            await asyncio.sleep(_RETRY_S)
        await self._announce(self._connection)
        await self._listen(self._connection)
        self.is_held = True
        self._task = asyncio.create_task(
            for_ever(self._hold, what="holding the broker lock"), name="ownership"
        )

    async def release(self) -> None:
        """Release the lock at a clean stop."""
        self.is_held = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None and not self._connection.closed:
            try:
                await store.stopped(self._connection, host=socket.gethostname(), pid=os.getpid())
            except psycopg.Error as error:
                logger.warning("releasing the broker lock failed; it ends with its connection: %s", error)
            finally:
                await self._connection.close()

    async def _hold(self) -> None:
        connection = self._connection
        try:
            if connection is None or connection.closed:
                raise psycopg.OperationalError("the connection is closed")
            async for notify in connection.notifies():
                self._notified(notify.channel, notify.payload)
        except psycopg.Error as error:
            logger.warning("the broker lock's connection is lost: %s", first_line(error))
        except Exception:
            logger.exception("listening on the broker lock's connection failed; it is opened again")
            if connection is not None:
                await connection.close()
        self.is_held = False
        await self._resume()

    async def _resume(self) -> None:
        attempts = 0
        while not self.is_held:
            attempts += 1
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await self._connect()
                if await store.try_lock(self._connection):
                    await self._take_back(self._connection)
                elif not await store.end_own_holder(self._connection, sorted(self._backends)):
                    self._give_up()
            except psycopg.Error as error:
                if attempts & (attempts - 1) == 0:  # Log the attempts 1, 2, 4, 8 and so on
                    logger.warning(
                        "waiting for the database to take the broker lock again (attempt %s): %s",
                        attempts,
                        first_line(error),
                    )
                if self._connection is not None:
                    await self._connection.close()
            except Exception:
                logger.exception("taking the broker lock again failed (attempt %s); trying again", attempts)
                if self._connection is not None:
                    await self._connection.close()
            if not self.is_held:
                await asyncio.sleep(_RETRY_S)
        try:
            self.on_resumed()
        except Exception:
            logger.exception(
                "the broker lock is held again, but telling the other parts of the broker failed"
            )

    async def _take_back(self, connection: Connection) -> None:
        await self._announce(connection)
        logs = self._logs()
        kept = await self._epochs.advance({each: each.owner_epoch for each in logs})
        for each in logs:
            if each not in kept:
                each.fence("another broker took the topic while the lock was lost")
        # Listen last. If LISTEN succeeds, the lock was not lost in the meantime.
        await self._listen(connection)
        self._backends = {connection.info.backend_pid}
        self.is_held = True
        logger.warning("the broker lock is held again; %s of %s topics kept", len(kept), len(logs))

    def _give_up(self) -> None:
        """Give up every topic, because another broker may have changed the topics in the database."""
        self._backends = {self._connection.info.backend_pid} if self._connection is not None else set()
        for each in self._logs():
            each.fence("another broker took over while the lock was lost")

    async def _connect(self) -> Connection:
        connection = await connect(self._conninfo, name="lock")
        self._backends.add(connection.info.backend_pid)
        return connection

    async def _listen(self, connection: Connection) -> None:
        for channel in CHANNELS:
            await connection.execute(f"LISTEN {channel}".encode())

    def _notified(self, channel: str, payload: str) -> None:
        try:
            self._on_notify(channel, payload)
        except Exception:  # An error in another part must not close the lock's connection
            logger.exception("handling %s failed", channel)

    async def _announce(self, connection: Connection) -> None:
        await store.name_broker(
            connection,
            host=socket.gethostname(),
            pid=os.getpid(),
            http_url=self._settings.local_http_url,
            pulsar_url=self._settings.advertised_url,
        )

    async def _describe_holder(self, connection: Connection) -> str:
        holder = await store.holder(connection)
        if holder is None:
            return "unknown"
        return f"{holder.host} pid {holder.pid}, started {holder.started_at:%Y-%m-%d %H:%M:%S %Z}"
