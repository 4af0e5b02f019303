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
from broker.core.flush_pace import flush_pause_s
from broker.service.connections import ConnectionPool, first_line
from broker.storage import acts as act_store
from broker.storage import cursors as store

if TYPE_CHECKING:
    from broker.core.cursor_state import CursorFlush
    from broker.service.ownership import Ownership
    from broker.service.subscription import Subscription
    from broker.service.topic import Topic
    from broker.service.values import DurableCallback

    Taken = list[tuple[Subscription, CursorFlush]]
    Waiting = list[tuple[Subscription, DurableCallback]]

__all__ = ["Flusher"]

log = logging.getLogger(__name__)

_RETRY_S = 0.2
_MOVED = "the topic moved to another broker; connect and acknowledge again"


class Flusher:
    """Collects dirty subscriptions and stores their cursors."""

    def __init__(self, pool: ConnectionPool, ownership: Ownership) -> None:
        self._pool = pool
        self._ownership = ownership
        self._dirty: set[Subscription] = set()
        self._waiting: Waiting = []
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

    def is_settled(self, subscription: Subscription) -> bool:
        """Whether everything of this subscription's cursor is stored."""
        return subscription not in self._dirty and not self._flushing.locked()

    async def flush_now(self) -> None:
        """Flush everything dirty, repeating while the database is away. Safe to cancel."""
        while True:
            async with self._flushing:  # what a flush under way has taken counts too
                if not self._dirty and not self._waiting:
                    return
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
        await self._pool.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        last_end_s = 0.0
        while True:
            await self._work.wait()
            rest_s = last_end_s + flush_pause_s(self._last_flush_s) - loop.time()
            if rest_s > 0 and not self._urgent.is_set():
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest_s):
                        await self._urgent.wait()
            self._urgent.clear()
            self._work.clear()
            try:
                await self._flush()
            except Exception:  # a flusher that ends would never store an ack again
                log.exception("cursor flush")
            last_end_s = loop.time()

    async def _flush(self) -> None:
        async with self._flushing:
            dirty, self._dirty = self._dirty, set()
            waiting, self._waiting = self._waiting, []
            lost = {each for each in dirty if each.topic.is_fenced}
            if lost:
                # Perhaps taken again since, by another object in this same process: these acks are nobody's any more.
                _answer([each for each in waiting if each[0] in lost], TopicFenced(_MOVED))
                waiting = [each for each in waiting if each[0] not in lost]
            taken = [(each, flush) for each in dirty - lost if (flush := each.take_dirty()) is not None]
            held = {each for each, _ in taken}
            _answer([each for each in waiting if each[0] not in held], None)
            if taken:
                started_s = asyncio.get_running_loop().time()
                await self._store(taken, [each for each in waiting if each[0] in held])
                self._last_flush_s = asyncio.get_running_loop().time() - started_s

    async def _store(self, taken: Taken, waiting: Waiting) -> None:
        epochs = {each.topic: each.topic.owner_epoch for each, _ in taken}
        is_sent = False
        try:
            async with self._pool.use() as connection:
                is_sent = True
                overlays = [
                    (each.topic.topic_id, each.undo_act_id, flush.overlay)
                    for each, flush in taken
                    if flush.overlay is not None and each.undo_act_id
                ]
                if overlays:  # before the cursors: whose ack is answered, of him an undo knows
                    await act_store.store_overlays(
                        connection,
                        epochs={topic.topic_id: epoch for topic, epoch in epochs.items()},
                        overlays=overlays,
                    )
                stored = await store.flush(
                    connection,
                    epochs={topic.topic_id: epoch for topic, epoch in epochs.items()},
                    dirty=[
                        store.DirtyCursor(each.topic.topic_id, each.subscription_id, flush)
                        for each, flush in taken
                    ],
                )
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            log.warning("cursor flush: the database is away (%s); trying again", first_line(error))
            self._put_back(taken, waiting)
            await asyncio.sleep(_RETRY_S)
            if is_sent:
                # The server may get or end the lost statement after the next flush, and would undo it (design 5).
                kept = await self._ownership.advance(epochs)
                for topic in epochs.keys() - kept:
                    topic.fenced(_MOVED)
        except psycopg.Error as error:
            await self._store_one_by_one(taken, waiting, error)
        else:
            await self._settle(taken, waiting, stored, epochs)

    async def _store_one_by_one(self, taken: Taken, waiting: Waiting, error: psycopg.Error) -> None:
        """The server refused the statement: only the guilty subscription may suffer for it."""
        if len(taken) > 1:
            for each in taken:
                await self._store([each], [one for one in waiting if one[0] is each[0]])
            return
        ((subscription, _),) = taken
        log.error("cursor of %s on %s refused: %s", subscription.name, subscription.topic.name, error)
        _answer(waiting, PersistenceFailed(f"the database refused the cursor: {first_line(error)}"))
        self._put_back(taken, [])
        await asyncio.sleep(_RETRY_S)

    async def _settle(
        self, taken: Taken, waiting: Waiting, stored: set[int], epochs: dict[Topic, int]
    ) -> None:
        for subscription, flush in taken:
            topic = subscription.topic
            callbacks = [each for each in waiting if each[0] is subscription]
            if topic.topic_id in stored:
                subscription.stored_mark_delete = flush.mark_delete
                _answer(callbacks, None)
            elif await self._ownership.has_advanced(topic, epochs[topic]):
                # This process itself advanced the epoch while the statement was on its way: the same again.
                self._put_back([(subscription, flush)], callbacks)
            else:
                topic.fenced("another broker took the topic")
                _answer(callbacks, TopicFenced(_MOVED))

    def _put_back(self, taken: Taken, waiting: Waiting) -> None:
        for subscription, flush in taken:
            subscription.put_back(flush)
            self._dirty.add(subscription)
        self._waiting = waiting + self._waiting
        self._work.set()


def _answer(waiting: Waiting, error: BrokerError | None) -> None:
    for _, callback in waiting:
        try:
            callback(error)
        except Exception:  # one transport's fault is not the next one's
            log.exception("an ack's receipt")
