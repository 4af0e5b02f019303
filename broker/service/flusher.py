"""Cursors flushed behind (design 6, T5): all dirty ones in one statement, at an adaptive interval.

Acks change memory at once. What was not flushed when the process dies is delivered again: at least once, never skipped.
A requested ack receipt makes the next flush urgent and is answered when it is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from broker.core.errors import BrokerError, PersistenceFailed, TopicFenced
from broker.service.connections import ConnectionPool
from broker.storage import cursors as store

if TYPE_CHECKING:
    from broker.core.cursor_state import CursorFlush
    from broker.service.subscription import Subscription
    from broker.service.values import DurableCallback

__all__ = ["Flusher"]

log = logging.getLogger(__name__)

_INTERVAL_LEAST_S = 0.1
_INTERVAL_MOST_S = 1.0
_INTERVAL_PER_FLUSH = 20  # flushing may take a twentieth of the time
_RETRY_S = 0.2


class Flusher:
    """Collects dirty subscriptions and stores their cursors."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._dirty: set[Subscription] = set()
        self._waiting: list[tuple[Subscription, DurableCallback]] = []
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._last_flush_s = 0.0

    def start(self) -> None:
        """Start flushing behind."""
        self._task = asyncio.create_task(self._run(), name="flusher")

    def mark(self, subscription: Subscription) -> None:
        """This subscription's cursor changed."""
        if subscription not in self._dirty:
            self._dirty.add(subscription)
            self._work.set()

    def when_durable(self, subscription: Subscription, callback: DurableCallback) -> None:
        """Flush soon and call back, once, when what the cursor holds now is stored, or with the error."""
        self._waiting.append((subscription, callback))
        self._dirty.add(subscription)
        self._work.set()
        self._urgent.set()

    async def flush_now(self) -> None:
        """Flush everything dirty, repeating while the database is away. Safe to cancel."""
        while self._dirty or self._waiting:
            await self._flush()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """No flush is under way inside: an older state cannot land after a move's."""
        async with self._flushing:
            yield

    async def stop(self) -> None:
        """Flush a last time; give up when the database stays away."""
        try:
            await asyncio.wait_for(self.flush_now(), timeout=3)
        except TimeoutError:
            log.warning(
                "the last cursor positions could not be stored; their messages will be delivered again"
            )
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        last_end_s = 0.0
        while True:
            await self._work.wait()
            interval_s = min(
                _INTERVAL_MOST_S, max(_INTERVAL_LEAST_S, _INTERVAL_PER_FLUSH * self._last_flush_s)
            )
            rest_s = last_end_s + interval_s - loop.time()
            if rest_s > 0 and not self._urgent.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), timeout=rest_s)
            self._urgent.clear()
            self._work.clear()
            await self._flush()
            last_end_s = loop.time()

    async def _flush(self) -> None:
        async with self._flushing:
            dirty, self._dirty = self._dirty, set()
            waiting, self._waiting = self._waiting, []
            taken = [(each, flush) for each in dirty if (flush := each.take_dirty()) is not None]
            if not taken:
                _answer(waiting, None)
                return
            epochs = {each.topic.topic_id: each.topic.owner_epoch for each, _ in taken}
            started_s = asyncio.get_running_loop().time()
            try:
                async with self._pool.use() as connection:
                    stored = await store.flush(
                        connection,
                        epochs=epochs,
                        dirty=[
                            store.DirtyCursor(each.topic.topic_id, each.subscription_id, flush)
                            for each, flush in taken
                        ],
                    )
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                log.warning(
                    "cursor flush: the database is away (%s); trying again", str(error).splitlines()[0]
                )
                self._put_back(taken, waiting)
                await asyncio.sleep(_RETRY_S)
                return
            except psycopg.Error as error:
                log.exception("cursor flush refused")
                self._put_back(taken, [])
                _answer(waiting, PersistenceFailed(f"the database refused the cursor: {error}"))
                await asyncio.sleep(_RETRY_S)
                return
            self._last_flush_s = asyncio.get_running_loop().time() - started_s
            self._settle(taken, waiting, stored, epochs)

    def _settle(
        self,
        taken: list[tuple[Subscription, CursorFlush]],
        waiting: list[tuple[Subscription, DurableCallback]],
        stored: set[int],
        epochs: dict[int, int],
    ) -> None:
        late = [each for each in taken if each[0].topic.topic_id not in stored]
        late_subscriptions = {subscription for subscription, _ in late}
        _answer([each for each in waiting if each[0] not in late_subscriptions], None)
        for subscription, flush in late:
            topic = subscription.topic
            callbacks = [each for each in waiting if each[0] is subscription]
            if topic.is_open and topic.owner_epoch != epochs[topic.topic_id]:
                # Ownership was resumed while the statement was on its way: the same again under the new epoch.
                self._put_back([(subscription, flush)], callbacks)
            else:
                topic.fenced("another broker took the topic")
                _answer(
                    callbacks,
                    TopicFenced("the topic moved to another broker; reconnect and acknowledge again"),
                )

    def _put_back(
        self,
        taken: list[tuple[Subscription, CursorFlush]],
        waiting: list[tuple[Subscription, DurableCallback]],
    ) -> None:
        for subscription, flush in taken:
            subscription.put_back(flush)
            self._dirty.add(subscription)
        self._waiting = waiting + self._waiting
        self._work.set()


def _answer(waiting: list[tuple[Subscription, DurableCallback]], error: BrokerError | None) -> None:
    for _, callback in waiting:
        callback(error)
