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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import psycopg

from broker.conf import BrokerSettings
from broker.storage import ownership as store
from broker.storage.connection import Connection, connect
from broker.storage.pool import ConnectionPool, first_line, repeat_until_done
from broker.storage.supervised import for_ever
from broker.storage.topics import topics as topic_store

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = ["BrokerAlreadyRuns", "Ownership"]

log = logging.getLogger(__name__)
T = TypeVar("T")

CHANNELS = ("vela_act", "vela_tick", "vela_policies", "vela_lifetime", "vela_outbox")
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
        self._backends: set[int] = set()  # of the lock's connections since the lock was last held for sure
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
        self._connection = await self._connect()
        deadline_s = asyncio.get_running_loop().time() + self._settings.lock_wait_s
        while not await store.try_lock(self._connection):
            if asyncio.get_running_loop().time() >= deadline_s:
                holder = await self._describe_holder(self._connection)
                await self._connection.close()
                raise BrokerAlreadyRuns(holder)
            await asyncio.sleep(_RETRY_S)
        await self._announce(self._connection)
        await self._listen(self._connection)
        self.is_held = True
        self._task = asyncio.create_task(
            for_ever(self._hold, what="holding the broker lock"), name="ownership"
        )

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

    async def advance_or_fence(self, expected: Mapping[Topic, int]) -> set[Topic]:
        """Make sure that no statement sent under these epochs can still do anything; return the topics still ours.

        The others are fenced: those that another broker took, and all of them when the epochs cannot be advanced.
        """
        reason = "another broker took the topic"
        try:
            kept = await self.advance(expected)
        except Exception:
            log.exception("advancing the epochs of %s topics failed; they are given up", len(expected))
            kept, reason = (
                set(),
                "a fault of the broker, whose log has it, left the outcome of a write unknown",
            )
        for topic in expected.keys() - kept:
            topic.fenced(reason)
        return kept

    async def has_advanced(self, topic: Topic, epoch: int) -> bool:
        """Whether this process itself advanced the topic's epoch from `epoch`; asked after a write was fenced.

        The advance may have committed and its answer be under way still: it is waited for.
        """
        async with self._advancing:
            return topic.is_open and topic.owner_epoch != epoch

    async def write(
        self, topic: Topic, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str
    ) -> T | None:
        """Run one write guarded by the topic's epoch, `call(connection, epoch)`, until its outcome is known.

        None from the call means fenced; None from here means that another broker has the topic, which is given up
        then. The rest is as in `write_all`.
        """

        async def write_one(connection: Connection, epochs: Mapping[Topic, int]) -> Mapping[Topic, T]:
            result = await call(connection, epochs[topic])
            return {} if result is None else {topic: result}

        return (await self.write_all([topic], write_one, what=what)).get(topic)

    async def write_all(
        self,
        topics: Sequence[Topic],
        call: Callable[[Connection, Mapping[Topic, int]], Awaitable[Mapping[Topic, T]]],
        *,
        what: str,
    ) -> dict[Topic, T]:
        """Run one write guarded by the epochs of many topics, until its outcome is known. Returns each topic's result.

        A topic missing from the call's answer was fenced; one missing from the result here belongs to another broker
        and is given up. The call must be safe to repeat. After a lost connection the epochs are advanced first, so that
        a statement which the server gets or ends later cannot undo what was written since. Raises psycopg.Error when
        the server refuses, and whatever else the call raises. Not safe to cancel.
        """
        done: dict[Topic, T] = {}
        waiting = list(topics)
        while waiting:
            epochs: dict[Topic, int] = {}
            try:
                async with self._pool.use() as connection:
                    epochs = {topic: topic.owner_epoch for topic in waiting}
                    results = await call(connection, epochs)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                log.warning("%s: the database is away (%s); trying again", what, first_line(error))
                await asyncio.sleep(_RETRY_S)
                if epochs:  # the statement may have been sent
                    kept = await self.advance_or_fence(epochs)
                    waiting = [topic for topic in waiting if topic in kept]
                continue
            except psycopg.Error:
                raise  # the server refused it, and nothing of it is stored
            except Exception:
                if epochs:  # it may be stored all the same, even later
                    await self.advance_or_fence(epochs)
                raise
            done.update(results)
            missing = [topic for topic in waiting if topic not in results]
            waiting = [topic for topic in missing if await self.has_advanced(topic, epochs[topic])]
            _give_up(topic for topic in missing if topic not in waiting)
        return done

    async def _hold(self) -> None:
        """Listen until the lock's connection is lost, then take the lock again."""
        connection = self._connection
        try:
            if connection is None or connection.closed:
                raise psycopg.OperationalError("the connection is closed")
            async for notify in connection.notifies():
                self._notified(notify.channel, notify.payload)
        except psycopg.Error as error:
            log.warning("the broker lock's connection is lost: %s", first_line(error))
        except Exception:
            log.exception("listening on the broker lock's connection failed; it is opened again")
            if connection is not None:
                await connection.close()
        self.is_held = False
        self.on_lost()
        await self._resume()

    async def _resume(self) -> None:
        """Reconnect, take the lock again, advance each epoch from the value known; give up what another took."""
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
                if attempts & (attempts - 1) == 0:  # a long outage must not fill the log
                    log.warning(
                        "waiting for the database to take the broker lock again (attempt %s): %s",
                        attempts,
                        first_line(error),
                    )
                if self._connection is not None:
                    await self._connection.close()
            except Exception:
                log.exception("taking the broker lock again failed (attempt %s); trying again", attempts)
                if self._connection is not None:
                    await self._connection.close()
            if not self.is_held:
                await asyncio.sleep(_RETRY_S)
        try:
            self.on_resumed()
        except Exception:  # the lock is held all the same
            log.exception("going on after the broker lock was taken again failed")

    async def _take_back(self, connection: Connection) -> None:
        """The lock is ours again: keep every topic that nobody took meanwhile."""
        await self._announce(connection)
        topics = self._topics()
        kept = await self.advance({topic: topic.owner_epoch for topic in topics})
        for topic in topics:
            if topic not in kept and topic.is_open:
                topic.fenced("another broker took the topic while the lock was lost")
        # Last, since it also shows that the lock's connection has outlived the advance.
        await self._listen(connection)
        self._backends = {connection.info.backend_pid}
        self.is_held = True
        log.warning("the broker lock is held again; %s of %s topics kept", len(kept), len(topics))

    def _give_up(self) -> None:
        """Another broker holds the lock: what is in memory here is out of date by its first write."""
        self._backends = {self._connection.info.backend_pid} if self._connection is not None else set()
        for topic in self._topics():
            topic.fenced("another broker took over while the lock was lost")

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
        except Exception:  # a fault in what was woken must not cost the lock
            log.exception("handling %s failed", channel)

    async def _announce(self, connection: Connection) -> None:
        await store.name_broker(
            connection,
            host=socket.gethostname(),
            pid=os.getpid(),
            http_url=f"http://{self._settings.local_host}:{self._settings.http_port}",
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


def _give_up(topics: Iterable[Topic]) -> None:
    for topic in topics:
        topic.fenced("another broker took the topic")
