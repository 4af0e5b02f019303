"""The writer's lanes. Each lane is a task that stores producers' messages over its own connection to PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg

from broker.log.scheduling.ready_logs import ReadyLogs
from broker.storage.log import entries as store
from broker.storage.pool import first_line
from broker.storage.prepared_connection import PreparedConnection
from broker.storage.supervised import for_ever

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog

__all__ = ["Lane", "Lanes"]

logger = logging.getLogger(__name__)

_LANES: Final = 3
_MOST_STORING: Final = 2  # Storing in more lanes would only make commits smaller
_RETRY_S: Final = 0.05
_RETRY_MOST_S: Final = 1.0


class _Job(Enum):
    NONE = auto()
    STORING = auto()
    FOLLOWING = auto()


@dataclass(slots=True)
class Lane:
    """One lane and its connection to PostgreSQL."""

    name: str
    conninfo: str
    connection: PreparedConnection | None = None
    job: _Job = _Job.NONE

    async def connected(self) -> PreparedConnection:
        """Return an open connection. Wait until the database is available."""
        delay_s = _RETRY_S
        while self.connection is None or self.connection.closed:
            try:
                self.connection = await PreparedConnection.open(self.conninfo, name=self.name)
            except psycopg.OperationalError as error:
                logger.warning(
                    "%s: the database is unavailable (%s); trying again", self.name, first_line(error)
                )
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_MOST_S)
        return self.connection

    async def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()


class Lanes:
    """Runs the lanes.

    `store` stores queued messages. While a topic's batch is being stored, `follow` copies the topic's next batch to
    PostgreSQL. The next batch commits after the first batch has committed.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        store: Callable[[Lane], Awaitable[None]],
        follow: Callable[[Lane, TopicLog], Awaitable[None]],
    ) -> None:
        self._store = store
        self._follow = follow
        self.ready = ReadyLogs()
        self._followed: dict[TopicLog, None] = {}  # Used as an ordered set
        self._lanes = [Lane(f"writer {number}", conninfo) for number in range(_LANES)]
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._drained = asyncio.Event()
        self._drained.set()

    def start(self) -> None:
        """Start the lanes."""
        self._tasks = [asyncio.create_task(self._run(lane), name=lane.name) for lane in self._lanes]

    async def drain(self) -> None:
        """Wait until the lanes have nothing left to store."""
        await self._drained.wait()

    async def stop(self) -> None:
        """Stop the lanes. Call `drain` first if all queued messages must be stored."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def submit(self, log: TopicLog) -> None:
        """Queue a log that has messages to store.

        Does nothing if the log is already queued or paused, or if the writer is preparing an append to it. While a
        batch of the log is being stored, queues the log only if `follow` can copy its next batch now and that batch
        is large. Otherwise the writer submits the log again after the batch.
        """
        if log.is_queued or log.is_taken or log.is_paused:
            return
        batch = log.in_flight
        if batch is None:
            self.ready.add(log)
            self._drained.clear()
        elif batch.can_be_followed and log.following is None and log.queued_bytes >= store.COPY_BYTES:
            self._followed[log] = None
        else:
            return
        self._wake()

    def turn_came(self, lane: Lane) -> None:
        """Count this lane as storing. Call this when the lane may commit the rows that it copied."""
        lane.job = _Job.STORING
        self._wake()

    def _next_job(self) -> _Job:
        jobs = [lane.job for lane in self._lanes]
        if self.ready and jobs.count(_Job.STORING) < _MOST_STORING:
            return _Job.STORING
        return _Job.FOLLOWING if self._followed and _Job.FOLLOWING not in jobs else _Job.NONE

    def _wake(self) -> None:
        while self._idle and self._next_job() is not _Job.NONE:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _turn(self, lane: Lane) -> None:
        lane.job = self._next_job()
        if lane.job is _Job.NONE:
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
            return
        try:
            self._wake()
            if lane.job is _Job.STORING:
                await self._store(lane)
            else:
                log = next(iter(self._followed))
                del self._followed[log]
                await self._follow(lane, log)
        finally:
            lane.job = _Job.NONE
            if not self.ready and all(each.job is _Job.NONE for each in self._lanes):
                self._drained.set()

    async def _run(self, lane: Lane) -> None:
        try:
            await for_ever(partial(self._turn, lane), what=lane.name)
        finally:
            await lane.close()
