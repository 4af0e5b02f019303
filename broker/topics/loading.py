"""Take ownership of topics and load them into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.core.cursor.cursor import Cursor
from broker.core.errors import ServiceNotReady
from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.subscription.types import SubscriptionType
from broker.log.compaction.view import CompactedView
from broker.log.ledger_rolling import roll_ledgers
from broker.log.sealing import seal
from broker.log.topic_log import TopicLog
from broker.storage.acts import acts as act_store
from broker.storage.connection import Connection
from broker.storage.cursors import cursors as cursor_store
from broker.storage.log import compaction as compaction_store
from broker.storage.log import delayed as delayed_store
from broker.storage.log import entries as log_store
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as store
from broker.topics.policies_in_force import effective_policies, rollover_policy

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.conf import BrokerSettings
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.cache import EntryCache
    from broker.log.epochs import Epochs
    from broker.log.segments import Segments
    from broker.producers.deduplication_keeper import DeduplicationKeeper
    from broker.storage.pool import ConnectionPool
    from broker.topics.topic import Topic

__all__ = ["NewTopic", "TopicLoader"]


class NewTopic(Protocol):
    """A function that makes a `Topic` from stored values."""

    def __call__(
        self,
        *,
        log: TopicLog,
        terminated: bool,
        policies: Policies,
        producer_epoch: int | None,
        compacted: CompactedView,
    ) -> Topic: ...


class TopicLoader:
    """Takes ownership of topics for this process."""

    def __init__(
        self,
        new_topic: NewTopic,
        deduplication_keeper: DeduplicationKeeper,
        *,
        pool: ConnectionPool,
        epochs: Epochs,
        segments: Segments,
        cache: EntryCache,
        clock: Clock,
        settings: BrokerSettings,
    ) -> None:
        self._new_topic = new_topic
        self._deduplication_keeper = deduplication_keeper
        self._pool = pool
        self._epochs = epochs
        self._segments = segments
        self._cache = cache
        self._clock = clock
        self._settings = settings

    async def load(self, name: TopicName, row: store.TopicRow) -> Topic:
        """Take ownership of a topic and load it. Safe to repeat.

        Raises BrokerError or psycopg.Error.
        """
        stored = await repeat_until_done(
            self._pool,
            lambda connection: _take(connection, row.topic_id, self._epochs.token),
            what=f"loading {name}",
        )
        policies = effective_policies(
            self._settings, row.namespace_policies, row.topic_policies, where=name.full
        )
        log = TopicLog(
            name=name,
            topic_id=row.topic_id,
            owner_epoch=stored.owner_epoch,
            ledgers=LedgerMap(stored.ledgers),
            segments=stored.segments,
            files=stored.files,
            cache=self._cache,
            policy=rollover_policy(policies),
        )
        topic = self._new_topic(
            log=log,
            terminated=row.terminated,
            policies=policies,
            producer_epoch=row.producer_epoch,
            compacted=CompactedView(
                row.topic_id,
                stored.compaction,
                self._pool,
                max_message_bytes=self._settings.max_uncompressed_bytes,
            ),
        )
        try:
            await self._fill(topic, row, stored)
        except BaseException:
            log.close()  # Otherwise a timer or a report could keep the topic in memory
            raise
        topic.loaded()
        return topic

    async def _fill(self, topic: Topic, row: store.TopicRow, stored: _Stored) -> None:
        log = topic.log
        for each_open in stored.left_open:
            await seal(self._epochs, log, each_open)
        if not len(log.ledgers) and not await roll_ledgers(
            self._epochs, [log], segment_id=self._segments.open_id, now_ms=self._clock.now_ms()
        ):
            raise ServiceNotReady(
                f"{topic.name} moved to another broker while it was being opened; connect again"
            )
        topic.last_used_ms = row.last_used_ms or topic.last_used_ms
        _add_subscriptions(topic, stored)
        topic.delayed.load(stored.delayed)
        if topic.policies.deduplication:
            topic.deduplication = await self._deduplication_keeper.load(topic)
        elif row.has_deduplication:
            await self._deduplication_keeper.forget(topic)


def _add_subscriptions(topic: Topic, stored: _Stored) -> None:
    undos = {undo.subscription_id: undo for undo in stored.undos}
    for each in stored.subscriptions:
        subscription = topic.subscriptions.add(
            each.subscription_id,
            each.name,
            SubscriptionType(each.type),
            Cursor(topic.log.ledgers, topic.log.index, each.cursor),
        )
        subscription.loaded(last_used_ms=each.last_used_ms, is_paused=each.paused)
        if (undo := undos.get(each.subscription_id)) is not None:
            subscription.record_for_undo(undo.act_id, undo.until_ms, undo.acked_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    owner_epoch: int
    ledgers: list[LedgerInfo]
    segments: dict[int, int]  # Segment ids by ledger id
    files: dict[int, str]  # File names of offloaded ledgers, by ledger id
    left_open: list[LedgerInfo]  # Unsealed ledgers before the last ledger
    subscriptions: list[cursor_store.SubscriptionRow]
    delayed: list[tuple[int, Sequence[int]]]  # Pairs of a ledger id and the ids of delayed entries
    undos: list[act_store.OpenUndo]
    compaction: compaction_store.StoredCompaction | None


async def _take(connection: Connection, topic_id: int, token: int) -> _Stored:
    owner_epoch = (await store.take_topics(connection, [topic_id], token=token)).get(topic_id)
    if owner_epoch is None:
        raise ServiceNotReady("the topic was deleted while it was being opened; try again")
    rows = await store.ledgers_of(connection, topic_id)
    # Treat all ledgers before the last as sealed. If PostgreSQL's answer to a rollover was lost, one may still be open.
    ledgers = [await _ledger_info(connection, each, is_last=each is rows[-1]) for each in rows]
    return _Stored(
        owner_epoch=owner_epoch,
        ledgers=ledgers,
        segments={each.ledger_id: each.segment_id for each in rows if each.segment_id is not None},
        files={each.ledger_id: each.file_name for each in rows if each.file_name is not None},
        left_open=[info for info, each in zip(ledgers, rows, strict=True) if info.sealed and not each.sealed],
        subscriptions=await cursor_store.subscriptions_of(connection, topic_id),
        delayed=await delayed_store.waiting(connection, topic_id),
        undos=await act_store.open_undos(connection, topic_id),
        compaction=await compaction_store.load(connection, topic_id),
    )


async def _ledger_info(connection: Connection, row: store.LedgerRow, *, is_last: bool) -> LedgerInfo:
    entries, messages, size_bytes = row.entries, row.messages, row.size_bytes
    first_append_ms, last_append_ms = row.first_append_ms, row.last_append_ms
    if not row.sealed and row.segment_id is not None:
        last = await log_store.last_entry(connection, segment_id=row.segment_id, ledger_id=row.ledger_id)
        if last is not None:
            entries = last.entry_id + 1
            messages = last.cumulative_messages - row.messages_before
            size_bytes = last.cumulative_bytes - row.bytes_before
            last_append_ms = last.append_ms
            first_append_ms = (
                await log_store.append_ms_at(
                    connection, segment_id=row.segment_id, ledger_id=row.ledger_id, entry_id=0
                )
                or last.append_ms
            )
    return LedgerInfo(
        ledger_id=row.ledger_id,
        entries=entries,
        entries_before=row.entries_before,
        messages_before=row.messages_before,
        bytes_before=row.bytes_before,
        messages=messages,
        size_bytes=size_bytes,
        sealed=row.sealed or not is_last,
        opened_ms=row.opened_ms,
        first_append_ms=first_append_ms,
        last_append_ms=last_append_ms,
    )
