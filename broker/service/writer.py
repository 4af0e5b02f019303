"""Group commit (design 5, T1): one statement for what many topics have ready, receipts after COMMIT, in send order.

While a commit is in flight, what arrives is gathered; there is no timer when idle. At most one commit is in flight per
topic, so receipts cannot overtake each other; two lanes let the server's fsync of one statement overlap the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from broker.core.errors import PersistenceFailed
from broker.service.clock import Clock
from broker.service.connections import first_line
from broker.service.ledger_rolling import roll_ledgers
from broker.service.segments import Segments
from broker.service.topic_log import AppendBatch
from broker.storage import log as store
from broker.storage.connection import Connection, connect, is_outcome_unknown

if TYPE_CHECKING:
    from broker.service.ownership import Ownership
    from broker.service.topic import Topic

__all__ = ["Writer"]

log = logging.getLogger(__name__)

LANES = 2
MAX_ROLLS = 1000  # topics whose next ledgers one statement opens
MAX_ENTRIES = 1000  # a statement of 1,000 rows of 1 KB takes about 15 ms; more only adds latency
# Half of what one connection may have unanswered, so that one half is gathered while the other commits.
MAX_BYTES = 2 * 1024 * 1024
_RETRY_S = 0.05
_RETRY_MOST_S = 1.0


@dataclass(slots=True)
class _Lane:
    """One task's connection; opened when it first has something to store, and again after it was lost."""

    name: str
    connection: Connection | None = None

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()
            self.connection = None


class Writer:
    """Takes topics with waiting sends and stores them. `submit` costs nothing while a lane is busy."""

    def __init__(self, conninfo: str, *, clock: Clock, segments: Segments, ownership: Ownership) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._segments = segments
        self._ownership = ownership
        self._ready: deque[Topic] = deque()
        self._work = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._busy = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self.commits = 0
        self.unknown_outcomes = 0

    def start(self) -> None:
        """Start the lanes; each opens its connection when it first has something to store."""
        self._lanes = [
            asyncio.create_task(self._run(_Lane(f"writer {number}")), name=f"writer {number}")
            for number in range(LANES)
        ]

    async def drain(self) -> None:
        """Wait until everything submitted has been answered."""
        await self._drained.wait()

    async def stop(self) -> None:
        """End the lanes; call `drain` before when nothing may stay unanswered."""
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)

    def submit(self, topic: Topic) -> None:
        """A topic has sends waiting. Idempotent while it waits or is in flight."""
        if topic.is_queued or topic.is_taken or topic.log.in_flight is not None or topic.log.is_held:
            return
        topic.is_queued = True
        self._ready.append(topic)
        self._drained.clear()
        self._work.set()

    async def _run(self, lane: _Lane) -> None:
        try:
            while True:
                await self._work.wait()
                if not self._ready:
                    self._work.clear()
                    continue
                self._busy += 1
                try:
                    await self._round(lane)
                except Exception:  # a lane that ends would stop every topic
                    log.exception("%s", lane.name)
                finally:
                    self._busy -= 1
                    if not self._ready and not self._busy:
                        self._drained.set()
        finally:
            await lane.close()

    async def _round(self, lane: _Lane) -> None:
        """Gather one statement's worth, store it, answer."""
        topic = self._ready.popleft()
        topic.is_queued = False
        if not topic.is_open or not topic.log.has_sends():
            return
        topic.is_taken = True
        try:
            connection = await self._connected(lane)
            now_ms = self._clock.now_ms()
            if topic.log.needs_ledger(now_ms, self._segments.open_id):
                await self._roll([topic, *self._take_full(now_ms)], now_ms)
        except psycopg.Error as error:
            self._refuse(topic, error)
            return
        finally:
            topic.is_taken = False
        if not topic.is_open or not topic.log.has_sends():
            return  # given up, held, or emptied, while the ledger was being opened
        batches = self._gather(topic, now_ms)
        try:
            await self._store(connection, batches)
        except psycopg.Error as error:
            await self._recover(lane, connection, batches, error)

    def _take_full(self, now_ms: int) -> list[Topic]:
        """Take the ready topics that need a new ledger first: when a segment has closed, all of them."""
        taken: list[Topic] = []
        for _ in range(len(self._ready)):
            topic = self._ready.popleft()
            if (
                len(taken) < MAX_ROLLS
                and topic.is_open
                and topic.log.has_sends()
                and topic.log.needs_ledger(now_ms, self._segments.open_id)
            ):
                topic.is_queued = False
                topic.is_taken = True
                taken.append(topic)
            else:
                self._ready.append(topic)
        return taken

    async def _roll(self, topics: list[Topic], now_ms: int) -> None:
        """Give these topics new ledgers. Where the server refuses, only the guilty topic may suffer for it."""
        segment_id = self._segments.open_id
        try:
            await roll_ledgers(self._ownership, topics, segment_id=segment_id, now_ms=now_ms)
        except psycopg.Error as error:
            if len(topics) == 1:
                self._refuse(topics[0], error)
                return
            for topic in topics:
                await self._roll([topic], now_ms)
        finally:
            for topic in topics[1:]:
                topic.is_taken = False
                self._resubmit(topic)

    async def _recover(
        self, lane: _Lane, connection: Connection, batches: dict[Topic, AppendBatch], error: psycopg.Error
    ) -> None:
        """After a failed statement: repeat what is known not to be stored, find out about the rest."""
        if not is_outcome_unknown(error, connection):
            try:
                await self._store_one_by_one(connection, batches, error)
            except psycopg.Error as again:
                error = again
            else:
                return
        self.unknown_outcomes += 1
        log.warning(
            "append: the connection died in a commit (%s); finding out what was stored", first_line(error)
        )
        await lane.close()
        await self._resolve(
            {topic: batch for topic, batch in batches.items() if topic.log.in_flight is batch}
        )

    async def _connected(self, lane: _Lane) -> Connection:
        delay_s = _RETRY_S
        while lane.connection is None or lane.connection.closed:
            try:
                lane.connection = await connect(self._conninfo, name=lane.name)
            except psycopg.OperationalError as error:
                log.warning("%s: the database is away (%s); trying again", lane.name, first_line(error))
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_MOST_S)
        return lane.connection

    def _gather(self, first: Topic, now_ms: int) -> dict[Topic, AppendBatch]:
        """`first` and whoever else is ready for the same segment, up to a statement's size."""
        segment_id = first.log.open_segment_id or self._segments.open_id
        batches = {first: first.log.take_batch(max_entries=MAX_ENTRIES, max_bytes=MAX_BYTES, now_ms=now_ms)}
        entries = len(batches[first].entries)
        size_bytes = batches[first].size_bytes
        for _ in range(len(self._ready)):
            if entries >= MAX_ENTRIES or size_bytes >= MAX_BYTES:
                break
            topic = self._ready.popleft()
            if topic.is_open and topic.log.has_sends() and topic.log.needs_ledger(now_ms, segment_id):
                self._ready.append(topic)
                continue
            topic.is_queued = False
            if not topic.is_open or not topic.log.has_sends():
                continue
            batch = topic.log.take_batch(
                max_entries=MAX_ENTRIES - entries, max_bytes=MAX_BYTES - size_bytes, now_ms=now_ms
            )
            batches[topic] = batch
            entries += len(batch.entries)
            size_bytes += batch.size_bytes
        return batches

    async def _store(self, connection: Connection, batches: dict[Topic, AppendBatch]) -> None:
        rows = store.AppendColumns()
        for topic, batch in batches.items():
            for entry in batch.entries:
                rows.add(topic.topic_id, entry)
            for entry in batch.delayed:
                rows.add_delayed(topic.topic_id, entry)
            if batch.outbox_ids:
                rows.add_moved(topic.topic_id, batch.outbox_ids)
        epochs = {topic.topic_id: topic.owner_epoch for topic in batches}
        first = next(iter(batches))
        segment_id = first.log.segments[batches[first].entries[0].ledger_id]
        stored = await store.append(connection, segment_id=segment_id, epochs=epochs, rows=rows)
        self.commits += 1
        for topic, batch in batches.items():
            if topic.topic_id in stored:
                self._committed(topic, batch)
            elif await self._ownership.has_advanced(topic, epochs[topic.topic_id]):
                # This process itself advanced the epoch while the statement was on its way (ownership resumed).
                topic.log.give_back(batch)
                self._resubmit(topic)
            else:
                topic.fenced("another broker took the topic")

    def _committed(self, topic: Topic, batch: AppendBatch) -> None:
        topic.log.committed(batch)
        try:
            topic.answer(batch)
        except Exception:  # a fault in one transport or subscription must not cost everybody the lane
            log.exception("%s: answering a commit failed", topic.name)
        self._resubmit(topic)

    def _resubmit(self, topic: Topic) -> None:
        if topic.is_open and topic.log.queue:
            self.submit(topic)

    async def _store_one_by_one(
        self, connection: Connection, batches: dict[Topic, AppendBatch], error: psycopg.Error
    ) -> None:
        """The server refused the statement: only the guilty topic may suffer for it."""
        if len(batches) == 1:
            ((topic, _),) = batches.items()
            self._refuse(topic, error)
            return
        for topic, batch in batches.items():
            try:
                await self._store(connection, {topic: batch})
            except psycopg.Error as again:
                if is_outcome_unknown(again, connection):
                    raise
                await self._store_one_by_one(connection, {topic: batch}, again)

    def _refuse(self, topic: Topic, error: Exception) -> None:
        log.error("append to %s refused: %s", topic.name, first_line(error))
        topic.append_refused(PersistenceFailed(f"the database refused the append: {first_line(error)}"))

    async def _resolve(self, batches: dict[Topic, AppendBatch]) -> None:
        """Design 5, unknown outcome: advance the epochs, which waits for the old statement's end, then look."""
        kept = await self._ownership.advance({topic: topic.owner_epoch for topic in batches})
        for topic, batch in batches.items():
            if topic not in kept:
                topic.fenced("another broker took the topic while a commit was in flight")
                continue
            if await topic.is_stored(batch):
                self._committed(topic, batch)
            else:
                topic.log.give_back(batch)
                self._resubmit(topic)
