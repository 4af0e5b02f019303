"""Group commit: one statement stores the sends of many topics. Receipts follow in send order after COMMIT.

A topic has at most one commit in flight, so its receipts stay in order.

A lane is a task with its own connection. With two lanes, PostgreSQL syncs one commit while it executes the next
statement. A third lane copies a busy topic's next sends to PostgreSQL during a commit, and commits these sends
afterwards.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import psycopg

from broker.clock import Clock
from broker.core.errors import PersistenceFailed
from broker.log.epochs import TAKEN, Epochs
from broker.log.ledger_rolling import roll_ledgers
from broker.log.scheduling.lanes import Lane, Lanes
from broker.log.scheduling.topic_limit import STATEMENT, Size, TopicLimit
from broker.log.segments import Segments
from broker.log.topic_log import AppendBatch
from broker.storage.connection import is_outcome_unknown
from broker.storage.log import entries as store
from broker.storage.pool import first_line, repeat_until_done
from broker.storage.prepared_connection import PreparedConnection

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool

__all__ = ["Writer"]

logger = logging.getLogger(__name__)

MAX_ROLLS = 1000  # At most this many topics get a new ledger in one statement


class Writer:
    """Stores the queued sends of all topics."""

    def __init__(
        self, conninfo: str, *, clock: Clock, segments: Segments, epochs: Epochs, pool: ConnectionPool
    ) -> None:
        self._clock = clock
        self._segments = segments
        self._epochs = epochs
        self._pool = pool
        self._topic_limit = TopicLimit()
        self._lanes = Lanes(conninfo, store=self._round, follow=self._follow)
        self._ready = self._lanes.ready
        self.commits = 0
        self.unknown_outcomes = 0

    def start(self) -> None:
        """Start the lanes."""
        self._lanes.start()

    async def drain(self) -> None:
        """Wait until all submitted sends have been answered."""
        await self._lanes.drain()

    async def stop(self) -> None:
        """Stop the lanes. Call `drain` first if every send must be answered."""
        await self._lanes.stop()

    def submit(self, log: TopicLog) -> None:
        """Queue a log that has sends waiting. Safe to repeat."""
        self._lanes.submit(log)

    async def _round(self, lane: Lane) -> None:
        log = self._ready.next()
        if not log.is_open or not log.has_sends():
            return
        log.is_taken = True
        try:
            await lane.connected()
            now_ms = self._clock.now_ms()
            if log.needs_ledger(now_ms, self._segments.open_id):
                full = self._ready.take_full(self._segments.open_id, now_ms, most=MAX_ROLLS - 1)
                await self._roll([log, *full], now_ms)
        except Exception as error:  # No append has begun, so the sends can be refused
            self._refuse(log, error)
            return
        finally:
            log.is_taken = False
        if not log.is_open or not log.has_sends():
            return
        if log.needs_ledger(now_ms, self._segments.open_id):
            self.submit(log)
            return
        await self._store_or_fence(lane, self._gather(log, now_ms))

    async def _follow(self, lane: Lane, log: TopicLog) -> None:
        await lane.connected()
        batch = self._take_following(log)
        if batch is None or batch.turn is None:
            return
        batch.turn.add_done_callback(lambda turn: self._lanes.turn_came(lane) if turn.result() else None)
        await self._store_or_fence(lane, {log: batch})
        if log.following is batch:  # The batch failed before it could commit
            self._wait_for_commit(log)

    def _wait_for_commit(self, log: TopicLog) -> None:
        log.take_back_following()
        if log.in_flight is not None:
            log.in_flight.can_be_followed = False

    async def _roll(self, logs: list[TopicLog], now_ms: int) -> None:
        segment_id = self._segments.open_id
        for log in logs:
            log.is_taken = True
        try:
            await roll_ledgers(self._epochs, logs, segment_id=segment_id, now_ms=now_ms)
        except Exception as error:
            if len(logs) == 1:
                self._refuse(logs[0], error)
                return
            if not isinstance(error, psycopg.Error):
                logger.exception("opening the next ledgers of %s topics failed", len(logs))
            for log in logs:
                if log.is_open and log.needs_ledger(now_ms, segment_id):
                    await self._roll([log], now_ms)
        finally:
            for log in logs[1:]:
                log.is_taken = False
                self._resubmit(log)

    def _gather(self, first: TopicLog, now_ms: int) -> dict[TopicLog, AppendBatch]:
        segment_id = first.open_segment_id or self._segments.open_id
        batches: dict[TopicLog, AppendBatch] = {}
        entries = size_bytes = 0
        log: TopicLog | None = first
        now_s = time.monotonic()
        most = self._topic_limit.now(now_s)
        while log is not None:
            batch = self._take(
                log,
                min(most.entries, STATEMENT.entries - entries),
                min(most.size_bytes, STATEMENT.size_bytes - size_bytes),
                now_ms,
            )
            if batch is not None:
                batches[log] = batch
                part = Size(len(batch.entries), batch.size_bytes)
                self._topic_limit.took(log.topic_id, part, has_more=bool(log.queue), now_s=now_s)
                entries += part.entries
                size_bytes += part.size_bytes
            has_room = entries < STATEMENT.entries and size_bytes < STATEMENT.size_bytes
            log = self._ready.next_for(segment_id, now_ms) if has_room else None
        return batches

    def _take(self, log: TopicLog, max_entries: int, max_bytes: int, now_ms: int) -> AppendBatch | None:
        try:
            return log.take_batch(max_entries=max_entries, max_bytes=max_bytes, now_ms=now_ms)
        except Exception as error:
            self._refuse(log, error)
            return None

    def _take_following(self, log: TopicLog) -> AppendBatch | None:
        before, now_ms, now_s = log.in_flight, self._clock.now_ms(), time.monotonic()
        if (
            before is None
            or not before.can_be_followed
            or log.following is not None
            or not log.is_open
            or not log.has_sends()
            or log.needs_ledger(now_ms, self._segments.open_id)
            or self._topic_limit.now(now_s) is not STATEMENT
        ):
            return None
        try:
            batch = log.take_batch(
                max_entries=STATEMENT.entries, max_bytes=STATEMENT.size_bytes, now_ms=now_ms
            )
            if store.can_be_copied(batch.size_bytes, batch.delayed, batch.outbox_ids):
                return batch
        except Exception:
            logger.exception("%s: taking sends failed; they wait", log.name, extra={"topic": str(log.name)})
        self._wait_for_commit(log)
        return None

    async def _store_or_fence(self, lane: Lane, batches: dict[TopicLog, AppendBatch]) -> None:
        try:
            await self._store(lane, batches)
        except Exception:
            logger.exception(
                "%s: an append failed, and so did the recovery; the broker closes the topics of this append",
                lane.name,
            )
            for each in _in_flight(batches):
                each.fence("an internal error left the outcome of an append unknown; see the broker's log")

    async def _store(self, lane: Lane, batches: dict[TopicLog, AppendBatch]) -> None:
        if not batches:
            return
        try:
            await self._append(await lane.connected(), batches)
        except psycopg.Error as error:
            if not _in_flight(batches):
                logger.warning("append: copying ahead failed (%s)", first_line(error))
                return
            if lane.connection is not None and not is_outcome_unknown(
                error, is_closed=lane.connection.closed
            ):
                await self._store_one_by_one(lane, _in_flight(batches), error)
                return
            logger.warning(
                "append: the connection died in a commit (%s); finding out what was stored", first_line(error)
            )
            for log, batch in (await self._not_stored(lane, batches)).items():
                log.give_back(batch)
                self._resubmit(log)
        except Exception as error:
            logger.exception("storing the appends of %s topics failed inside the broker", len(batches))
            if not _in_flight(batches):
                return
            await self._store_one_by_one(lane, await self._not_stored(lane, batches), error)

    async def _append(self, connection: PreparedConnection, batches: dict[TopicLog, AppendBatch]) -> None:
        rows = store.AppendRows()
        for log, batch in batches.items():
            rows.add(
                log.topic_id,
                batch.entries,
                size_bytes=batch.size_bytes,
                delayed=batch.delayed,
                moved=batch.outbox_ids,
            )
        epochs = {log.topic_id: log.owner_epoch for log in batches}
        first = next(iter(batches))
        segment_id = first.segments[batches[first].entries[0].ledger_id]

        def copying() -> None:
            for log, batch in batches.items():
                batch.can_be_followed = True
                self._resubmit(log)

        stored = await store.append(
            connection,
            segment_id=segment_id,
            epochs=epochs,
            rows=rows,
            copying=copying,
            turn=batches[first].turn,
        )
        self.commits += 1
        for log, batch in batches.items():
            if log.topic_id in stored:
                self._committed(log, batch)
            elif await self._epochs.has_advanced(log, epochs[log.topic_id]):
                # This broker still owns the topic, but advanced the owner epoch while the statement was in flight.
                log.give_back(batch)
                self._resubmit(log)
            else:
                log.fence(TAKEN)

    def _committed(self, log: TopicLog, batch: AppendBatch) -> None:
        try:
            log.committed(batch)
            log.listener.stored(batch)
        except Exception:
            # The log in memory may be incomplete, and some receipts may be missing. The fence forces a reload.
            logger.exception("%s: answering a commit failed", log.name, extra={"topic": str(log.name)})
            log.fence("answering a commit failed inside the broker; see the broker's log")
        self._resubmit(log)

    def _resubmit(self, log: TopicLog) -> None:
        if log.is_open and log.queue:
            self.submit(log)

    async def _store_one_by_one(
        self, lane: Lane, batches: dict[TopicLog, AppendBatch], error: Exception
    ) -> None:
        if len(batches) == 1:
            self._refuse(next(iter(batches)), error)
            return
        for log, batch in batches.items():
            if log.in_flight is batch:
                await self._store(lane, {log: batch})

    def _refuse(self, log: TopicLog, error: Exception) -> None:
        fields = {"topic": str(log.name)}
        if isinstance(error, psycopg.Error):
            logger.error("append to %s refused: %s", log.name, first_line(error), extra=fields)
            reason = f"the database refused the append: {first_line(error)}"
        else:
            logger.error("append to %s failed inside the broker", log.name, exc_info=error, extra=fields)
            reason = f"the append failed inside the broker ({error!r}); the broker's log says more"
        log.refuse(PersistenceFailed(reason))

    async def _not_stored(
        self, lane: Lane, batches: dict[TopicLog, AppendBatch]
    ) -> dict[TopicLog, AppendBatch]:
        """Return the batches that an interrupted statement did not store.

        Waits until the statement has ended, so that the outcome is final.
        """
        self.unknown_outcomes += 1
        await lane.close()
        unknown = _in_flight(batches)
        for log in unknown:
            # The transaction of `log.following` locks the owner epoch, so the advance below would wait for it.
            log.take_back_following()
        kept = await self._epochs.advance_or_fence({log: log.owner_epoch for log in unknown})
        missing: dict[TopicLog, AppendBatch] = {}
        for log, batch in unknown.items():
            if log not in kept:
                continue
            try:
                is_stored = await self._is_stored(log, batch)
            except Exception:
                logger.exception(
                    "%s: looking for the last entry failed", log.name, extra={"topic": str(log.name)}
                )
                log.fence(
                    "the broker could not find out which part of an append is stored; see the broker's log"
                )
                continue
            if is_stored:
                self._committed(log, batch)
            else:
                missing[log] = batch
        return missing

    async def _is_stored(self, log: TopicLog, batch: AppendBatch) -> bool:
        last = batch.entries[-1]
        stored = await repeat_until_done(
            self._pool,
            lambda c: store.last_entry(c, segment_id=log.segments[last.ledger_id], ledger_id=last.ledger_id),
            what="finding out what was stored",
        )
        return stored is not None and stored.entry_id >= last.entry_id


def _in_flight(batches: dict[TopicLog, AppendBatch]) -> dict[TopicLog, AppendBatch]:
    return {log: batch for log, batch in batches.items() if log.is_open and log.in_flight is batch}
