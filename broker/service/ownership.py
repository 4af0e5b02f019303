"""Who may write: the advisory lock for liveness, epochs for fencing, and what happens when either is lost (design 6).

The lock's connection is always awaited in `notifies()`: an idle connection does not notice its death. The same
connection therefore carries the wake-ups from other processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psycopg

from broker.conf import BrokerSettings
from broker.service.connections import ConnectionPool, repeat_until_done
from broker.storage import ownership as store
from broker.storage import topics as topic_store
from broker.storage.connection import Connection, connect

if TYPE_CHECKING:
    from broker.service.topic import Topic

__all__ = ["BrokerAlreadyRuns", "Ownership"]

log = logging.getLogger(__name__)

CHANNELS = ("vela_act", "vela_tick")
_RETRY_S = 0.2


class BrokerAlreadyRuns(Exception):
    """Another broker holds this database's lock. The text names it."""


class Ownership:
    """Holds the lock. `on_lost` stops sending at once; `on_resumed` is called when every kept topic has a new epoch."""

    def __init__(
        self,
        conninfo: str,
        *,
        settings: BrokerSettings,
        pool: ConnectionPool,
        topics: Callable[[], list[Topic]],
        on_notify: Callable[[str, str], None],
    ) -> None:
        self._conninfo = conninfo
        self._settings = settings
        self._pool = pool
        self._topics = topics
        self._on_notify = on_notify
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._advancing = asyncio.Lock()
        self.is_held = False
        self.token = secrets.randbits(62)
        self.on_lost: Callable[[], None] = lambda: None
        self.on_resumed: Callable[[], None] = lambda: None

    async def acquire(self) -> None:
        """Take the lock, waiting `lock_wait_s` for an earlier broker to leave.

        Raises BrokerAlreadyRuns naming the holder, psycopg.OperationalError when the database cannot be reached.
        """
        self._connection = await connect(self._conninfo, name="lock")
        deadline_s = asyncio.get_running_loop().time() + self._settings.lock_wait_s
        while not await store.try_lock(self._connection):
            if asyncio.get_running_loop().time() >= deadline_s:
                raise BrokerAlreadyRuns(await self._describe_holder(self._connection))
            await asyncio.sleep(_RETRY_S)
        await self._announce(self._connection)
        self.is_held = True
        self._task = asyncio.create_task(self._hold(), name="ownership")

    async def release(self) -> None:
        """Let go at a clean stop."""
        self.is_held = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None and not self._connection.closed:
            try:
                await store.unname_broker(self._connection, host=socket.gethostname(), pid=os.getpid())
                await self._connection.close()
            except psycopg.Error as error:
                log.warning("letting the broker lock go: %s", error)

    async def advance(self, expected: Mapping[Topic, int]) -> set[Topic]:
        """Advance the epochs of these topics from the values expected; returns the topics still ours.

        The database waits until older statements of those topics have ended. A topic whose epoch this process has
        advanced since `expected` was read counts as ours: that advance waited just the same.
        """
        async with self._advancing:
            kept = {
                topic for topic, epoch in expected.items() if topic.owner_epoch != epoch and topic.is_open
            }
            asked = {topic.topic_id: topic for topic in expected if topic not in kept and topic.is_open}
            if asked:
                epochs = {topic_id: topic.owner_epoch for topic_id, topic in asked.items()}
                advanced = await repeat_until_done(
                    self._pool,
                    lambda c: topic_store.advance_epochs(c, epochs, token=self.token),
                    what="advancing epochs",
                )
                for topic_id, epoch in advanced.items():
                    asked[topic_id].owner_epoch = epoch
                    kept.add(asked[topic_id])
            return kept

    async def _hold(self) -> None:
        while True:
            connection = self._connection
            try:
                if connection is None or connection.closed:
                    raise psycopg.OperationalError("the connection is closed")
                for channel in CHANNELS:
                    await connection.execute(f"LISTEN {channel}".encode())
                async for notify in connection.notifies():
                    self._on_notify(notify.channel, notify.payload)
            except psycopg.Error as error:
                log.warning("the broker lock's connection is lost: %s", (str(error).splitlines() or [""])[0])
            self.is_held = False
            self.on_lost()
            await self._resume()

    async def _resume(self) -> None:
        """Reconnect, take the lock again, advance each epoch from the value known; give up what another took."""
        while True:
            try:
                if self._connection is not None:
                    await self._connection.close()
                self._connection = await connect(self._conninfo, name="lock")
                if await store.try_lock(self._connection):
                    await self._announce(self._connection)
                    break
            except psycopg.OperationalError as error:
                log.warning(
                    "waiting for the database to take the broker lock again: %s", str(error).splitlines()[0]
                )
            await asyncio.sleep(_RETRY_S)
        topics = self._topics()
        kept = await self.advance({topic: topic.owner_epoch for topic in topics})
        for topic in topics:
            if topic not in kept and topic.is_open:
                topic.fenced("another broker took the topic while the lock was lost")
        self.is_held = True
        log.warning("the broker lock is held again; %s of %s topics kept", len(kept), len(topics))
        self.on_resumed()

    async def _announce(self, connection: Connection) -> None:
        host = "127.0.0.1" if self._settings.bind in ("0.0.0.0", "::") else self._settings.bind  # noqa: S104
        await store.name_broker(
            connection,
            host=socket.gethostname(),
            pid=os.getpid(),
            http_url=f"http://{host}:{self._settings.http_port}",
            pulsar_url=self._settings.advertised_url,
        )

    async def _describe_holder(self, connection: Connection) -> str:
        holder = await store.holder(connection)
        who = (
            f"{holder.host} pid {holder.pid}, started {holder.started_at:%Y-%m-%d %H:%M:%S %Z}"
            if holder
            else "unknown"
        )
        return (
            f"another broker already runs on this database ({who}); "
            "stop it, or point DATABASE_URL at another database"
        )
