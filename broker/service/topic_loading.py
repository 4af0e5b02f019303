"""Taking a topic: advance its epoch, then bring its ledgers and cursors into memory (design 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.cursor import Cursor
from broker.core.ledger import LedgerInfo, LedgerMap, RolloverPolicy
from broker.core.subscription import SubscriptionType
from broker.service.topic import Topic
from broker.service.topic_log import TopicLog
from broker.storage import cursors as cursor_store
from broker.storage import log as log_store
from broker.storage import topics as store
from broker.storage.connection import Connection

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.topic_name import TopicName
    from broker.service.services import Services

__all__ = ["load_topic"]


async def load_topic(name: TopicName, row: store.TopicRow, services: Services) -> Topic:
    """Take a topic: advance its epoch, then read its ledgers and cursors. Raises psycopg.Error; safe to repeat."""
    async with services.pool.use() as connection:
        owner_epoch = await store.take_topic(connection, row.topic_id, token=services.ownership.token)
        ledger_rows = await store.ledgers_of(connection, row.topic_id)
        # A roll whose answer was lost leaves an open ledger before the last: it is full all the same.
        infos = [
            await _ledger_info(connection, ledger, is_last=ledger is ledger_rows[-1])
            for ledger in ledger_rows
        ]
        subscription_rows = await cursor_store.subscriptions_of(connection, row.topic_id)
    segments = {ledger.ledger_id: ledger.segment_id for ledger in ledger_rows}
    topic = Topic(
        name=name,
        topic_id=row.topic_id,
        owner_epoch=owner_epoch,
        terminated=row.terminated,
        log_=TopicLog(
            topic_id=row.topic_id,
            ledgers=LedgerMap(infos),
            segments=segments,
            cache=services.cache,
            policy=_rollover_policy(services.settings),
        ),
        services=services,
    )
    if topic.log.ledgers.open_ledger() is None:
        await topic.roll_ledger(services.segments.open_id, services.clock.now_ms())
    for stored in subscription_rows:
        topic.add_subscription(
            stored.subscription_id,
            stored.name,
            SubscriptionType(stored.type),
            Cursor(topic.log.ledgers, topic.log.index, stored.cursor),
        )
    services.reporter.topic_changed(topic)
    return topic


def _rollover_policy(settings: BrokerSettings) -> RolloverPolicy:
    return RolloverPolicy(
        max_entries=settings.ledger_max_entries,
        max_bytes=settings.ledger_max_bytes,
        min_age_ms=settings.ledger_min_age_ms,
        max_age_ms=settings.ledger_max_age_ms,
    )


async def _ledger_info(connection: Connection, row: store.LedgerRow, *, is_last: bool) -> LedgerInfo:
    """A ledger as memory wants it; the totals of an open one are what its last entry says."""
    entries, messages, size_bytes = row.entries, row.messages, row.size_bytes
    first_append_ms, last_append_ms = row.first_append_ms, row.last_append_ms
    if not row.sealed:
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
