"""Store changed cursors in the background. One statement stores many cursors.

If the process dies, messages whose acks are not yet stored are delivered again.

An owner epoch is the number under which this broker owns a topic. A statement does not change the cursors of a
topic whose owner epoch has advanced.

This file is long because a flush and its failures are easier to check in one place.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psycopg

from broker.clock import Clock
from broker.core.errors import BrokerError, TopicFenced
from broker.core.subscription.flush_pace import flush_pause_s
from broker.log.epochs import TAKEN, Epochs
from broker.storage.acts import acts as act_store
from broker.storage.away import is_away
from broker.storage.cursors import cursors as store
from broker.storage.pool import ConnectionPool, first_line
from broker.storage.supervised import for_ever
from broker.subscription.storing.refused_cursors import RefusedCursor, RefusedCursors

if TYPE_CHECKING:
    from broker.core.cursor.state import CursorFlush
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection
    from broker.subscription.requests import DurableCallback

__all__ = ["FlushedCursor", "Flusher"]

logger = logging.getLogger(__name__)

# Limits of one statement. Its last cursor may exceed the limits of chunks and ack sets.
MAX_CURSORS = 1000
MAX_CHUNKS = 1000  # A chunk of a cursor covers 32,768 entries
MAX_ACK_SETS = 50_000
MAX_TRIES = 16  # One turn tries at most this many refused cursors
_RETRY_S = 0.2
_MOVED = "the topic moved to another broker; connect and acknowledge again"


class FlushedCursor(Protocol):
    """The members of a subscription that the flusher uses."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> TopicLog: ...
    @property
    def subscription_id(self) -> int: ...
    @property
    def undo_act_id(self) -> int:
        """The id of the last act with an undo window; 0 means none. An act is a recorded change."""

    @property
    def is_deleted(self) -> bool: ...
    def take_dirty(self) -> CursorFlush | None:
        """Return the changes to store, or None."""

    def put_back(self, flush: CursorFlush) -> None:
        """Keep the changes of a failed flush for a later flush."""

    def stored(self, flush: CursorFlush) -> None:
        """Record that the changes of a flush are stored."""

    def refusal_changed(self) -> None:
        """Report that the cursor can no longer be stored, or that it can be stored again."""


@dataclass(slots=True)
class _Taken:
    subscription: FlushedCursor
    flush: CursorFlush | None
    callbacks: list[DurableCallback]
    is_settled: bool = False


class Flusher:
    """A background writer of changed cursors."""

    def __init__(self, pool: ConnectionPool, epochs: Epochs, clock: Clock) -> None:
        self._pool = pool
        self._epochs = epochs
        self._clock = clock
        self._dirty: dict[FlushedCursor, None] = {}
        self._waiting: dict[FlushedCursor, list[DurableCallback]] = {}
        self._refused: RefusedCursors[FlushedCursor] = RefusedCursors()
        self._unknown: dict[TopicLog, int] = {}  # Owner epochs of statements whose outcome is unknown
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._put_backs = 0
        self._last_flush_s = 0.0
        self._last_end_s = 0.0

    def start(self) -> None:
        """Start flushing in the background."""
        self._task = asyncio.create_task(for_ever(self._turn, what="the cursor flush"), name="flusher")

    def mark(self, subscription: FlushedCursor) -> None:
        """Record that the subscription's cursor changed."""
        if subscription not in self._dirty and subscription not in self._refused:
            self._dirty[subscription] = None
            self._work.set()

    def when_durable(self, subscription: FlushedCursor, callback: DurableCallback) -> None:
        """Flush soon. Then call `callback` with None, or with the error."""
        self._waiting.setdefault(subscription, []).append(callback)
        self._dirty[subscription] = None
        self._work.set()
        self._urgent.set()

    def is_settled(self, subscription: FlushedCursor) -> bool:
        """Return whether every change of this cursor is stored. Always False during a flush or a pause."""
        return not (subscription in self._dirty or subscription in self._refused or self._flushing.locked())

    def refusal_of(self, subscription: FlushedCursor) -> RefusedCursor | None:
        """Return why this cursor cannot be stored, or None."""
        return self._refused.get(subscription)

    async def flush_now(self) -> list[FlushedCursor]:
        """Store all changed cursors, and try the refused cursors again. Safe to cancel.

        Return the subscriptions whose cursors are still refused. Changes during the flush may stay unstored.
        """
        tries = list(self._refused)
        while not await self._flush(tries):
            tries = []
        return list(self._refused)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Prevent flushes during the `with` block. A flush could overwrite what a cursor move stores."""
        async with self._flushing:
            await self._learn_outcomes()
            yield

    async def stop(self) -> None:
        """Flush a last time, for at most 3 s. Then stop, and close the pool."""
        try:
            for each in await asyncio.wait_for(self.flush_now(), timeout=3):
                logger.warning(
                    "the cursor of subscription %s of %s could not be stored before the broker stops; messages"
                    " acknowledged since it was last stored will be delivered again",
                    each.name,
                    each.log.name,
                    extra={"topic": str(each.log.name), "subscription": each.name},
                )
        except TimeoutError:
            logger.warning(
                "some cursors could not be stored before the broker stops; messages acknowledged since they were last"
                " stored will be delivered again"
            )
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.close()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        # In Python 3.11, asyncio.wait_for can lose a cancellation that arrives together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._refused.next_try_s()):
                await self._work.wait()
        rest_s = self._last_end_s + flush_pause_s(self._last_flush_s) - loop.time()
        if rest_s > 0 and not self._urgent.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._urgent.wait()
        self._urgent.clear()
        self._work.clear()
        try:
            await self._flush(self._refused.due(loop.time())[:MAX_TRIES])
        finally:
            self._last_end_s = loop.time()

    # -- one flush -----------------------------------------------------------------------------------------------

    async def _flush(self, tries: Iterable[FlushedCursor]) -> bool:
        """Return False if some changes must wait for a later flush."""
        async with self._flushing:
            put_back_before = self._put_backs
            started_s = asyncio.get_running_loop().time()
            todo = deque(self._dirty)
            self._dirty = {}
            part: list[_Taken] = []
            has_stored = False
            try:
                while todo:
                    await self._learn_outcomes()
                    self._take_part(todo, part)
                    has_stored |= bool(part)
                    await self._store(part)
                    part = []
                for subscription in tries:
                    await self._learn_outcomes()
                    self._take(subscription, part, is_try=True)
                    await self._store(part)
                    part = []
            finally:
                self._put_back(part)
                if todo:
                    self._dirty = dict.fromkeys(todo) | self._dirty
                    self._work.set()
            if has_stored:
                self._last_flush_s = asyncio.get_running_loop().time() - started_s
            return self._put_backs == put_back_before

    async def _learn_outcomes(self) -> None:
        """Advance the owner epochs, so that a statement whose outcome is unknown cannot take effect later."""
        if self._unknown:
            await self._epochs.advance_or_fence(self._unknown)
            self._unknown = {}

    def _take_part(self, todo: deque[FlushedCursor], part: list[_Taken]) -> None:
        cursors = chunks = ack_sets = 0
        while todo and cursors < MAX_CURSORS and chunks < MAX_CHUNKS and ack_sets < MAX_ACK_SETS:
            flush = self._take(todo.popleft(), part)
            if flush is not None:
                cursors += 1
                chunks += len(flush.bitmaps.keys() | flush.ack_sets.keys()) + len(flush.dropped)
                ack_sets += sum(len(sets) for sets in flush.ack_sets.values())

    def _take(
        self, subscription: FlushedCursor, part: list[_Taken], *, is_try: bool = False
    ) -> CursorFlush | None:
        taken = _Taken(subscription, None, self._waiting.pop(subscription, []))
        if self._is_given_up(taken):
            return None
        refused = self._refused.get(subscription)
        if refused is not None and not is_try:
            _answer(taken, refused.error())
            return None
        try:
            taken.flush = subscription.take_dirty()
        except Exception as error:  # The other cursors must still be stored
            logger.exception("taking the changes of a cursor failed: subscription %s", subscription.name)
            self._refuse(taken, error)
            return None
        if taken.flush is None:
            self._accepted(subscription)
            _answer(taken, None)
        else:
            part.append(taken)
        return taken.flush

    def _is_given_up(self, taken: _Taken) -> bool:
        if not taken.subscription.log.is_fenced:
            return False
        self._refused.remove(taken.subscription)
        _answer(taken, TopicFenced(_MOVED))
        return True

    async def _store(self, part: Sequence[_Taken]) -> None:
        part = [each for each in part if not self._is_given_up(each)]
        if not part:
            return
        epochs = {(log := each.subscription.log): log.owner_epoch for each in part}
        is_known = True
        try:
            async with self._pool.use() as connection:
                is_known = False
                stored = await self._send(connection, part, epochs)
        except psycopg.Error as error:
            if is_away(error):
                logger.warning(
                    "cursor flush: the database is unavailable (%s); trying again", first_line(error)
                )
                self._put_back(part)
                await asyncio.sleep(_RETRY_S)
            else:
                is_known = True
                await self._store_halves(part, error)
        except Exception as error:
            logger.exception(
                "cursor flush: storing %s cursors failed; those that can be stored are stored without the others",
                len(part),
            )
            if not is_known:
                is_known = True
                await self._epochs.advance_or_fence(epochs)
            await self._store_halves(part, error)
        else:
            is_known = True
            await self._settle(part, stored, epochs)
        finally:
            if not is_known:  # The connection was lost, or this task is being cancelled
                self._unknown |= epochs

    async def _send(
        self, connection: Connection, part: Sequence[_Taken], epochs: dict[TopicLog, int]
    ) -> set[int]:
        epoch_of = {log.topic_id: epoch for log, epoch in epochs.items()}
        overlays = [
            (each.log.topic_id, each.undo_act_id, flush.overlay)
            for each, flush in _flushes(part)
            if flush.overlay is not None and each.undo_act_id
        ]
        # An overlay records acks that an undo must keep. Store overlays before the cursors, so that an undo never loses
        # a stored ack.
        if overlays:
            await act_store.store_overlays(connection, epochs=epoch_of, overlays=overlays)
        return await store.flush(
            connection,
            epochs=epoch_of,
            dirty=[
                store.DirtyCursor(each.log.topic_id, each.subscription_id, flush)
                for each, flush in _flushes(part)
            ],
        )

    async def _store_halves(self, part: Sequence[_Taken], error: Exception) -> None:
        """Split the cursors in half and store each half, so that a refused cursor does not block the others."""
        if len(part) == 1:
            self._refuse(part[0], error)
            return
        half = len(part) // 2
        await self._store(part[:half])
        await self._store(part[half:])

    async def _settle(self, part: Sequence[_Taken], stored: set[int], epochs: dict[TopicLog, int]) -> None:
        for each in part:
            subscription, log = each.subscription, each.subscription.log
            if log.topic_id in stored:
                if each.flush is not None:
                    subscription.stored(each.flush)
                self._accepted(subscription)
                _answer(each, None)
            elif await self._epochs.has_advanced(log, epochs[log]):
                # This broker advanced the epoch itself, so it still owns the topic.
                self._put_back([each])
            else:
                log.fence(TAKEN)
                self._refused.remove(subscription)
                _answer(each, TopicFenced(_MOVED))

    def _put_back(self, part: Iterable[_Taken]) -> None:
        for each in part:
            if each.is_settled:
                continue
            each.is_settled = True
            self._put_backs += 1
            if each.flush is not None:
                each.subscription.put_back(each.flush)
            if each.callbacks:
                self._waiting[each.subscription] = each.callbacks + self._waiting.get(each.subscription, [])
            if each.callbacks or each.subscription not in self._refused:
                self._dirty[each.subscription] = None
        if self._dirty:
            self._work.set()

    # -- refusals ------------------------------------------------------------------------------------------------

    def _refuse(self, taken: _Taken, error: Exception) -> None:
        subscription = taken.subscription
        if taken.flush is not None:
            subscription.put_back(taken.flush)
        refused = self._refused.add(
            subscription,
            f"the database refused it: {first_line(error)}"
            if isinstance(error, psycopg.Error)
            else f"an internal error, see the broker's log: {error!r}",
            now_ms=self._clock.now_ms(),
            now_s=asyncio.get_running_loop().time(),
        )
        if refused.refusals & (refused.refusals - 1) == 0:  # Log attempts 1, 2, 4, 8, and so on
            logger.error(
                "the cursor of subscription %s of %s cannot be stored: %s; delivery continues, and acks stay in memory"
                " until the database takes them (failed attempts: %s)",
                subscription.name,
                subscription.log.name,
                refused.reason,
                refused.refusals,
                extra={"topic": str(subscription.log.name), "subscription": subscription.name},
            )
        subscription.refusal_changed()
        _answer(taken, refused.error())
        self._work.set()  # Wake the background task, so that it plans the next attempt

    def _accepted(self, subscription: FlushedCursor) -> None:
        refused = self._refused.remove(subscription)
        if refused is not None and not subscription.is_deleted:
            logger.warning(
                "the cursor of subscription %s of %s is stored again; it had not been stored since %s",
                subscription.name,
                subscription.log.name,
                refused.since,
                extra={"topic": str(subscription.log.name), "subscription": subscription.name},
            )
            subscription.refusal_changed()


def _flushes(part: Sequence[_Taken]) -> list[tuple[FlushedCursor, CursorFlush]]:
    return [(each.subscription, each.flush) for each in part if each.flush is not None]


def _answer(taken: _Taken, error: BrokerError | None) -> None:
    taken.is_settled = True
    for callback in taken.callbacks:
        try:
            callback(error)
        except Exception:  # A fault in one connection must not affect other clients
            logger.exception("answering an ack failed; its client gets no receipt")
