"""Compact topics: keep the latest message of each key.

The first pass, in the broker or in a Spark job, finds the latest message of each key. The second pass copies the
messages that stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

import psycopg

from broker.core.compaction.retry import retry_pause_ms
from broker.core.errors import BrokerError, NotAllowed, TopicFenced
from broker.core.position import Position
from broker.storage.log import compaction as store
from broker.storage.log.compaction import CompactionResult, Horizon, Kept, StoredCompaction
from broker.storage.pool import first_line
from broker.topics.compaction.pace import Pace
from broker.topics.compaction.passes import Passes, pieces
from broker.topics.compaction.surveyed import SurveyedPass

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.conf import BrokerSettings
    from broker.storage.connection import Connection
    from broker.storage.log.compaction_surveys import Survey
    from broker.storage.pool import ConnectionPool
    from broker.topics.compaction.pace import Report
    from broker.topics.topic import Topic

__all__ = ["CompactionBusy", "Compactor", "Measured"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SWEEP_ENTRIES: Final = 1000
_MEASURED_ENTRIES: Final = 10_000
_MEASURED_BYTES: Final = 16 * 1024 * 1024


class CompactionBusy(BrokerError):
    """The topic is being compacted already, or its compacted messages were deleted during the compaction."""

    code = "ServiceNotReady"
    retriable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of `Compactor.measure`."""

    kept: Kept
    removed_messages: int
    removed_bytes: int
    entries: int
    is_complete: bool  # False if `measure` stopped early


async def _no_report(percent: int) -> None:
    pass


class _Rules(TypedDict):
    retain_keyless: bool
    max_message_bytes: int


class Compactor:
    """Compacts topics, one at a time."""

    def __init__(self, pool: ConnectionPool, clock: Clock, settings: BrokerSettings) -> None:
        self._pool = pool
        self._clock = clock
        self._settings = settings
        self._one = asyncio.Lock()

    def backlog_bytes(self, topic: Topic) -> int:
        """Return the total size of the entries that are not compacted yet."""
        stored = topic.compacted.stored
        horizon = _before_log(topic) if stored is None else stored.horizon
        return topic.log.ledgers.total_bytes - horizon.size_bytes

    async def measure(self, topic: Topic) -> Measured:
        """Count the messages that `compact` would keep, and those it would remove. Stops early on a large topic."""
        through = topic.log.ledgers.last_position()
        passes = self._passes()
        seen_pieces = seen_entries = seen_bytes = 0
        is_complete = True
        async for piece in pieces(topic, through):
            if seen_entries >= _MEASURED_ENTRIES or seen_bytes >= _MEASURED_BYTES:
                is_complete = False
                break
            await passes.see(piece)
            seen_pieces += 1
            seen_entries += len(piece)
            seen_bytes += sum(len(entry.data) for entry in piece)
        kept, removed = Kept(), 0
        async for piece in pieces(topic, through):
            if not seen_pieces:
                break
            seen_pieces -= 1
            stayed = await passes.stays(piece)
            kept, removed = kept + stayed.kept, removed + stayed.removed_messages
        return Measured(
            kept=kept,
            removed_messages=removed,
            removed_bytes=seen_bytes - kept.size_bytes,
            entries=seen_entries,
            is_complete=is_complete,
        )

    async def compact(
        self, topic: Topic, *, report: Report = _no_report, survey: Survey | None = None
    ) -> CompactionResult:
        """Compact a topic. Waits until no other topic is being compacted.

        `survey` is the result of a first pass in Spark. Raises NotAllowed if the survey is out of date, or if the topic
        has too many keys. Also raises CompactionBusy, other BrokerErrors and psycopg.Error.
        """
        if topic.compacted.is_running:
            raise CompactionBusy(f"{topic.name} is being compacted already")
        topic.compacted.is_running = True
        try:
            async with self._one:
                return await self._compact(topic, report, survey)
        finally:
            topic.compacted.is_running = False

    async def _compact(self, topic: Topic, report: Report, survey: Survey | None) -> CompactionResult:
        total, stored = topic.log.ledgers.total_messages, topic.compacted.stored
        if survey is None and stored is not None and stored.generation and stored.horizon.messages == total:
            await self._sweep_quietly(topic)  # The last run may have stopped before it deleted old entries
            return CompactionResult(kept=stored.kept, removed_messages=0, duration_ms=0)
        async with topic.compacted.changing:
            horizon = _end_of(topic) if survey is None else await self._surveyed(topic, survey)
            attempt = await self._begin(topic)
        try:
            result = await self._run(topic, attempt, horizon, report, survey)
        except Exception as error:
            is_known = isinstance(error, (BrokerError, psycopg.Error))
            await self._failed(topic, attempt, first_line(error) if is_known else repr(error))
            raise
        await self._sweep_quietly(topic)
        return result

    async def _surveyed(self, topic: Topic, survey: Survey) -> Horizon:
        stored = topic.compacted.stored
        if stored is None or not stored.generation:
            is_next = not survey.generation
        else:
            is_next = (survey.generation, survey.begin) == (stored.generation, stored.horizon.position)
        if not is_next or not topic.log.ledgers.contains(survey.horizon):
            raise NotAllowed(
                f"{topic.name} was compacted, trimmed or emptied since Spark read it: run the job again"
            )
        return await _totals(topic, survey.horizon)

    async def _begin(self, topic: Topic) -> int:
        """Record that a run begins. From then on, the broker trims only compacted entries."""
        view = topic.compacted
        known, first = view.stored, _before_log(topic)
        if known is None:
            view.stored = StoredCompaction(horizon=first, generation=0, attempt=0, kept=Kept())
        try:
            attempt = await _write(topic, partial(store.begin, horizon=first), what="beginning a compaction")
        except BaseException:
            view.stored = known
            raise
        assert view.stored is not None
        view.stored = replace(view.stored, attempt=attempt)
        return attempt

    async def _run(
        self, topic: Topic, attempt: int, horizon: Horizon, report: Report, survey: Survey | None
    ) -> CompactionResult:
        began_ms = self._clock.now_ms()
        await self._sweep(topic)
        stored = topic.compacted.stored
        once_bytes = self.backlog_bytes(topic) + (0 if stored is None else stored.kept.size_bytes)
        pace = Pace(self._settings.compaction_rate_bytes, once_bytes * (2 if survey is None else 1), report)
        second: Passes | SurveyedPass
        if survey is None:
            second = passes = self._passes()
            async for piece in pieces(topic, horizon.position):
                await passes.see(piece)
                self._require_room(topic, passes.keys)
                await pace.read(piece)
        else:
            second = SurveyedPass(survey, self._pool, **self._rules())
        kept, removed = Kept(), 0
        async for piece in pieces(topic, horizon.position):
            stayed = await second.stays(piece)
            kept, removed = kept + stayed.kept, removed + stayed.removed_messages
            if stayed.entries:
                add = partial(store.add, attempt=attempt, entries=stayed.entries)
                await _write(topic, add, what="storing compacted entries")
            await pace.read(piece)
        duration_ms = self._clock.now_ms() - began_ms
        result = CompactionResult(kept=kept, removed_messages=removed, duration_ms=duration_ms)
        publish = partial(store.publish, attempt=attempt, horizon=horizon, result=result)
        async with topic.compacted.changing:
            if not await _write(topic, publish, what="publishing compacted entries"):
                raise CompactionBusy(f"{topic.name} was emptied during the compaction; compact it again")
            topic.compacted.stored = StoredCompaction(
                horizon=horizon, generation=attempt, attempt=attempt, kept=kept
            )
        topic.compacted.counters.succeed(result, read_bytes=pace.read_bytes)
        logger.info(
            "%s is compacted up to %s: %s messages stay, %s were removed",
            topic.name,
            horizon.position,
            kept.messages,
            removed,
        )
        return result

    async def _failed(self, topic: Topic, attempt: int, error: str) -> None:
        view = topic.compacted
        view.counters.failed += 1
        failures = 1 if view.stored is None else view.stored.failures + 1
        pause_ms = retry_pause_ms(failures)
        retry_ms = self._clock.now_ms() + pause_ms
        if view.stored is not None:
            view.stored = replace(view.stored, failures=failures, retry_ms=retry_ms)
        logger.warning(
            "%s was not compacted; its policy starts no run for %d s: %s", topic.name, pause_ms / 1000, error
        )
        fail = partial(store.fail, attempt=attempt, error=error, failures=failures, retry_ms=retry_ms)
        try:
            await _write(topic, fail, what="ending a compaction")
        except (BrokerError, psycopg.Error) as fault:  # The next load of the topic marks the run as failed
            logger.warning("%s: the end of its compaction is not stored: %s", topic.name, first_line(fault))

    async def empty(self, topic: Topic, through: Position) -> None:
        """Delete the compacted messages of a truncated topic. Safe to repeat.

        `through` is the last truncated position. Does nothing if a later entry is already compacted. Raises
        TopicFenced, PersistenceFailed and psycopg.Error.
        """
        async with topic.compacted.changing:
            stored = topic.compacted.stored
            if stored is None or stored.horizon.position > through:
                return
            horizon = stored.horizon
            if through > horizon.position:
                horizon = await _totals(topic, through)
            attempt = stored.attempt + 1
            empty = partial(store.empty, attempt=attempt, horizon=horizon)
            await _write(topic, empty, what="emptying a compacted topic")
            topic.compacted.stored = StoredCompaction(
                horizon=horizon, generation=attempt, attempt=attempt, kept=Kept()
            )
            await self._sweep_quietly(topic)

    async def forget(self, topic: Topic) -> None:
        """Delete a topic's compacted messages. Safe to repeat.

        Raises TopicFenced and psycopg.Error.
        """
        async with topic.compacted.changing:
            if topic.compacted.stored is None:
                return
            await _write(topic, store.forget, what="deleting a compaction")
            topic.compacted.stored = None
            await self._sweep_quietly(topic)

    async def _sweep_quietly(self, topic: Topic) -> None:
        try:
            await self._sweep(topic)
        except (BrokerError, psycopg.Error) as error:  # The next run deletes the entries
            logger.warning("%s: old compacted entries stay for now: %s", topic.name, first_line(error))

    async def _sweep(self, topic: Topic) -> None:
        stored = topic.compacted.stored
        generation = 0 if stored is None else stored.generation
        sweep = partial(store.sweep, generation=generation, limit=_SWEEP_ENTRIES)
        while await _write(topic, sweep, what="deleting old compacted entries") == _SWEEP_ENTRIES:
            pass

    def _passes(self) -> Passes:
        return Passes(**self._rules())

    def _rules(self) -> _Rules:
        return _Rules(
            retain_keyless=self._settings.compaction_retain_keyless,
            max_message_bytes=self._settings.max_uncompressed_bytes,
        )

    def _require_room(self, topic: Topic, keys: int) -> None:
        most = self._settings.compaction_max_keys
        if keys > most:
            raise NotAllowed(
                f"{topic.name} has more than {most} keys (VELA_COMPACTION_MAX_KEYS), too many for the broker's memory:"
                f" compact it with Spark, `vela pipeline run compact {topic.name}`, or raise the setting"
            )


async def _totals(topic: Topic, through: Position) -> Horizon:
    index = topic.log.index
    while (totals := index.through(through)) is None:
        await topic.reader.load_index(index.unknown(through))
    return Horizon(position=through, messages=totals[0], size_bytes=totals[1])


def _end_of(topic: Topic) -> Horizon:
    ledgers = topic.log.ledgers
    return Horizon(
        position=ledgers.last_position(),
        messages=ledgers.total_messages,
        size_bytes=ledgers.total_bytes,
    )


def _before_log(topic: Topic) -> Horizon:
    first = next(iter(topic.log.ledgers))
    return Horizon(
        position=Position(first.ledger_id, -1),
        messages=first.messages_before,
        size_bytes=first.bytes_before,
    )


async def _write(topic: Topic, call: Callable[..., Awaitable[T | None]], *, what: str) -> T:
    async def guarded(connection: Connection, owner_epoch: int) -> T | None:
        return await call(connection, topic_id=topic.topic_id, owner_epoch=owner_epoch)

    done = await topic.write(guarded, what=what)
    if done is None:
        raise TopicFenced(f"{topic.name} moved to another broker; compact it there")
    return done
