"""Group commit: one statement for what many topics have ready, receipts after COMMIT, in send order.

While a commit is in flight, what arrives is gathered; there is no timer when idle. At most one commit is in flight per
topic, so receipts cannot overtake each other; two lanes let the server's fsync of one statement overlap the next.

Whatever fails, no topic is left with a batch in flight: after an outcome that is not known the epochs are advanced and
the log is looked at; what is not stored and cannot be is refused, and its producers are closed, so that they resend.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from broker.clock import Clock
from broker.core.errors import PersistenceFailed
from broker.log.ledger_rolling import roll_ledgers
from broker.log.ready_topics import ReadyTopics
from broker.log.segments import Segments
from broker.log.topic_log import AppendBatch
from broker.storage.connection import Connection, connect, is_outcome_unknown
from broker.storage.log import entries as store
from broker.storage.pool import first_line
from broker.storage.supervised import for_ever

if TYPE_CHECKING:
    from broker.process.ownership import Ownership
    from broker.topics.topic import Topic

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
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()


class Writer:
    """Takes topics with waiting sends and stores them. `submit` costs nothing while a lane is busy."""

    def __init__(self, conninfo: str, *, clock: Clock, segments: Segments, ownership: Ownership) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._segments = segments
        self._ownership = ownership
        self._ready = ReadyTopics()
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
        self._ready.add(topic)
        self._drained.clear()
        self._work.set()

    async def _turn(self, lane: _Lane) -> None:
        await self._work.wait()
        if not self._ready:
            self._work.clear()
            return
        self._busy += 1
        try:
            await self._round(lane)
        finally:
            self._busy -= 1
            if not self._ready and not self._busy:
                self._drained.set()

    async def _run(self, lane: _Lane) -> None:
        try:
            await for_ever(partial(self._turn, lane), what=lane.name)
        finally:
            await lane.close()

    async def _round(self, lane: _Lane) -> None:
        """Gather one statement's worth, store it, answer. Every topic taken is settled, whatever fails."""
        topic = self._ready.next()
        if not topic.is_open or not topic.log.has_sends():
            return
        topic.is_taken = True
        try:
            await self._connected(lane)
            now_ms = self._clock.now_ms()
            if topic.log.needs_ledger(now_ms, self._segments.open_id):
                full = self._ready.take_full(self._segments.open_id, now_ms, most=MAX_ROLLS - 1)
                await self._roll([topic, *full], now_ms)
        except Exception as error:  # nothing of it has been sent
            self._refuse(topic, error)
            return
        finally:
            topic.is_taken = False
        if not topic.is_open or not topic.log.has_sends():
            return  # given up, held, or emptied, while the ledger was being opened
        if topic.log.needs_ledger(now_ms, self._segments.open_id):
            self.submit(topic)  # refused and used again meanwhile, or the segment has closed since
            return
        batches = self._gather(topic, now_ms)
        try:
            await self._store(lane, batches)
        except Exception:
            log.exception("%s: a fault while a failed append was being settled", lane.name)
            for each in _in_flight(batches):
                each.fenced("a fault of the broker, whose log has it, left the outcome of an append unknown")

    async def _roll(self, topics: list[Topic], now_ms: int) -> None:
        """Give these topics new ledgers. Where that fails, only the guilty topic may suffer for it."""
        segment_id = self._segments.open_id
        for topic in topics:
            topic.is_taken = True
        try:
            await roll_ledgers(self._ownership, topics, segment_id=segment_id, now_ms=now_ms)
        except Exception as error:
            if len(topics) == 1:
                self._refuse(topics[0], error)
                return
            if not isinstance(error, psycopg.Error):
                log.exception("opening the next ledgers of %s topics failed", len(topics))
            for topic in topics:
                if topic.is_open and topic.log.needs_ledger(now_ms, segment_id):
                    await self._roll([topic], now_ms)
        finally:
            for topic in topics[1:]:
                topic.is_taken = False
                self._resubmit(topic)

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
        """Take batches of `first` and of the topics that are ready for the same segment, up to a statement's size."""
        segment_id = first.log.open_segment_id or self._segments.open_id
        batches: dict[Topic, AppendBatch] = {}
        entries = size_bytes = 0
        topic: Topic | None = first
        while topic is not None:
            batch = self._take(topic, MAX_ENTRIES - entries, MAX_BYTES - size_bytes, now_ms)
            if batch is not None:
                batches[topic] = batch
                entries += len(batch.entries)
                size_bytes += batch.size_bytes
            has_room = entries < MAX_ENTRIES and size_bytes < MAX_BYTES
            topic = self._ready.next_for(segment_id, now_ms) if has_room else None
        return batches

    def _take(self, topic: Topic, max_entries: int, max_bytes: int, now_ms: int) -> AppendBatch | None:
        try:
            return topic.log.take_batch(max_entries=max_entries, max_bytes=max_bytes, now_ms=now_ms)
        except Exception as error:  # the other topics' sends are stored all the same
            self._refuse(topic, error)
            return None

    async def _store(self, lane: _Lane, batches: dict[Topic, AppendBatch]) -> None:
        """Store these batches and settle each: committed, refused, waiting again, or its topic is fenced."""
        if not batches:
            return
        try:
            await self._append(await self._connected(lane), batches)
        except psycopg.Error as error:
            if lane.connection is not None and not is_outcome_unknown(error, lane.connection):
                await self._store_one_by_one(lane, _in_flight(batches), error)
                return
            log.warning(
                "append: the connection died in a commit (%s); finding out what was stored", first_line(error)
            )
            for topic, batch in (await self._not_stored(lane, batches)).items():
                topic.log.give_back(batch)
                self._resubmit(topic)
        except Exception as error:
            log.exception("append: a fault while %s topics were being stored", len(batches))
            await self._store_one_by_one(lane, await self._not_stored(lane, batches), error)

    async def _append(self, connection: Connection, batches: dict[Topic, AppendBatch]) -> None:
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
        try:
            topic.log.committed(batch)
            topic.answer(batch)
        except (
            Exception
        ):  # memory may be half changed, and some receipts not given: begin anew from the database
            log.exception("%s: answering a commit failed", topic.name)
            topic.fenced("answering a commit failed inside the broker; its log says why")
        self._resubmit(topic)

    def _resubmit(self, topic: Topic) -> None:
        if topic.is_open and topic.log.queue:
            self.submit(topic)

    async def _store_one_by_one(
        self, lane: _Lane, batches: dict[Topic, AppendBatch], error: Exception
    ) -> None:
        """Nothing of these batches is stored: only the guilty topic may suffer for it."""
        if len(batches) == 1:
            self._refuse(next(iter(batches)), error)
            return
        for topic, batch in batches.items():
            if topic.log.in_flight is batch:
                await self._store(lane, {topic: batch})

    def _refuse(self, topic: Topic, error: Exception) -> None:
        if isinstance(error, psycopg.Error):
            log.error("append to %s refused: %s", topic.name, first_line(error))
            reason = f"the database refused the append: {first_line(error)}"
        else:
            log.error("append to %s failed inside the broker", topic.name, exc_info=error)
            reason = f"the append failed inside the broker ({error!r}); its log says more"
        topic.append_refused(PersistenceFailed(reason))

    async def _not_stored(self, lane: _Lane, batches: dict[Topic, AppendBatch]) -> dict[Topic, AppendBatch]:
        """Find out about a statement of unknown outcome: commit what is stored, return what is not.

        The epochs are advanced first, which waits for the old statement's end: after that nothing changes any more.
        """
        self.unknown_outcomes += 1
        await lane.close()
        unknown = _in_flight(batches)
        kept = await self._ownership.advance_or_fence({topic: topic.owner_epoch for topic in unknown})
        missing: dict[Topic, AppendBatch] = {}
        for topic, batch in unknown.items():
            if topic not in kept:
                continue
            try:
                is_stored = await topic.is_stored(batch)
            except Exception:
                log.exception("%s: looking for the last entry failed", topic.name)
                topic.fenced("the broker could not find out what of an append is stored; its log says why")
                continue
            if is_stored:
                self._committed(topic, batch)
            else:
                missing[topic] = batch
        return missing


def _in_flight(batches: dict[Topic, AppendBatch]) -> dict[Topic, AppendBatch]:
    """Those of the batches that are not settled yet; a topic may have another batch on its way by now."""
    return {
        topic: batch for topic, batch in batches.items() if topic.is_open and topic.log.in_flight is batch
    }
