"""Build snapshots of subscriptions. The diagnosis reads these snapshots.

The module is long because a snapshot copies columns from many queries.
"""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings as django_settings

from broker.conf import broker_settings
from broker.topics.policies_in_force import effective_policies
from console.diagnosis.snapshot import (
    Consumer,
    Cursor,
    Database,
    DeadLetters,
    Delayed,
    Departure,
    Disk,
    DispatchRate,
    FirstUnacked,
    KeyBlock,
    Limits,
    OldestSegment,
    Pause,
    Processes,
    SlowestCursor,
    Snapshot,
    Subscription,
    Topic,
)
from console.queries.clients import CONSUMERS_SHOWN, ConsumerRow, consumers_of
from console.queries.cursor import AckedBeyond, acked_beyond_each
from console.queries.database import fetch, fetch_entries
from console.queries.subscription import PendingRow, SubscriptionHead, pending_of
from console.queries.topics.log import EntryAt, Log, Place, by_place, entries_at, logs_of
from console.words.subscriptions import state_word
from pipeline.errors import OffloadUnavailable

__all__ = ["PENDING_READ", "Parts", "read_snapshots", "snapshots_of"]

PENDING_READ: Final = 2000
_DELAYED_READ: Final = 10_000
_RATES: Final = (
    "dispatch_rate_messages",
    "dispatch_rate_bytes",
    "subscription_dispatch_rate_messages",
    "subscription_dispatch_rate_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The data that a diagnosis shares with other blocks of the subscription's page."""

    log: Log
    mark_delete: int  # Index of the mark-delete entry in the log
    acked: AckedBeyond
    pending: Sequence[PendingRow]
    consumers: Sequence[ConsumerRow]
    first: EntryAt | None  # First entry with an unacked message, or None if no such entry can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    id: int
    namespace_policies: dict[str, Any]
    topic_policies: dict[str, Any]
    last_append_ms: int | None
    producers: int | None
    blocked: bool | None
    rate_limited: bool | None
    gap: str | None
    read_fault: str | None
    active_consumer: int | None
    first_redeliveries: int | None
    key_slot: int | None
    key_consumer: int | None
    key_waiting_entries: int | None
    key_is_draining: bool | None
    left_name: str | None
    left_address: str | None
    left_version: str | None
    left_cause: str | None
    left_detail: str | None
    left_ms: int | None
    paused_by: str | None
    paused_at: datetime | None
    paused_reason: str | None
    slowest_name: str | None
    slowest_acked_bytes: int | None
    letters_topic: str | None
    letters_messages: int | None
    letters_backlog: int | None
    letters_subscriptions: int | None
    letters_consumers: int | None
    segment_id: int | None
    segment_closed_ms: int | None
    segment_ledgers: int | None
    broker_host: str | None
    broker_seen_at: datetime | None
    beat_at: datetime | None
    worker_at: datetime | None
    database_ms: int  # Current time by the database's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class _DelayedRow:
    topic_id: int
    ledger_id: int
    entry_id: int
    deliver_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatabaseRow:
    is_visible: bool
    waiting_statements: int
    longest_wait_s: float
    waiting_query: str
    blocking_pid: int
    blocking_program: str
    longest_transaction_s: float
    transaction_pid: int
    transaction_program: str
    transaction_state: str


def read_snapshots(heads: Collection[SubscriptionHead], *, now_ms: int) -> dict[int, Snapshot]:
    """Return the snapshots, keyed by subscription id. Leaves out deleted subscriptions."""
    logs = logs_of(sorted({head.topic_id for head in heads}))
    cursors = {
        head.id: (log, log.index_of(head.mark_delete_ledger, head.mark_delete_entry))
        for head in heads
        for log in (logs[head.topic_id],)
    }
    acked = acked_beyond_each(cursors)
    places = {each: _first_place(*cursors[each], acked[each]) for each in cursors}
    firsts = _readable([(cursors[each][0], place) for each, place in places.items() if place is not None])
    deliveries = pending_of(list(cursors), _share(PENDING_READ, len(cursors)))
    consumers = _consumers(list(cursors))
    return snapshots_of(
        [
            (
                head,
                Parts(
                    log=cursors[head.id][0],
                    mark_delete=cursors[head.id][1],
                    acked=acked[head.id],
                    pending=deliveries[head.id],
                    consumers=[row for row in consumers if row.subscription_id == head.id],
                    first=None if (place := places[head.id]) is None else firsts.get(place),
                ),
            )
            for head in heads
        ],
        now_ms=now_ms,
    )


def _consumers(subscriptions: Sequence[int]) -> list[ConsumerRow]:
    most = CONSUMERS_SHOWN * max(1, len(subscriptions))
    found = consumers_of(subscriptions, limit=most)
    if len(found) < most or len(subscriptions) == 1:
        return found
    # The limit may have cut off all consumers of some subscriptions.
    return [row for each in subscriptions for row in consumers_of([each], limit=CONSUMERS_SHOWN)]


def _share(rows: int, subscriptions: int) -> int:
    return max(rows // 10, rows // max(1, subscriptions))


def _readable(wanted: Collection[tuple[Log, Place]]) -> dict[Place, EntryAt]:
    stored: set[int] = set()
    offloaded: list[tuple[Log, Place]] = []
    for log, place in wanted:
        segments = [store for store in log.stores_of([place]) if isinstance(store, int)]
        stored.update(segments)
        if not segments:
            offloaded.append((log, place))
    rows = fetch_entries(EntryAt, "at", stored, by_place(place for _, place in wanted))
    found = {row.place: row for row in rows}
    for log, place in offloaded:
        with suppress(OffloadUnavailable):
            found |= entries_at(log, [place])
    return found


def _first_place(log: Log, mark_delete: int, acked: AckedBeyond) -> Place | None:
    index = next(acked.next_unacked(mark_delete + 1, log.end), None)
    return None if index is None else log.place_at(index)


def snapshots_of(read: Sequence[tuple[SubscriptionHead, Parts]], *, now_ms: int) -> dict[int, Snapshot]:
    """Return the snapshots, keyed by subscription id. Leaves out deleted subscriptions."""
    ids = [head.id for head, _ in read]
    around = {row.id: row for row in fetch(_Around, "diagnosis", "around", {"subscriptions": ids})}
    delayed: dict[int, list[_DelayedRow]] = {head.topic_id: [] for head, _ in read}
    most_delayed = _share(_DELAYED_READ, len(read))
    asked = {"topics": list(delayed), "now_ms": now_ms, "limit": most_delayed + 1}
    for row in fetch(_DelayedRow, "diagnosis", "delayed", asked):
        delayed[row.topic_id].append(row)
    database, disk = _database(), _disk()
    return {
        head.id: _snapshot(
            head,
            parts,
            around[head.id],
            delayed=_delayed(delayed[head.topic_id], parts, most_delayed) if head.delays else None,
            database=database,
            disk=disk,
            now_ms=now_ms,
        )
        for head, parts in read
        if head.id in around
    }


def _snapshot(
    head: SubscriptionHead,
    parts: Parts,
    around: _Around,
    *,
    delayed: Delayed | None,
    database: Database | None,
    disk: Disk | None,
    now_ms: int,
) -> Snapshot:
    backlog_messages = parts.log.total_messages - head.acked_messages
    ahead_ms = now_ms - around.database_ms
    return Snapshot(
        now_ms=now_ms,
        topic=Topic(
            name=head.topic_name,
            last_append_ms=around.last_append_ms,
            message_rate_in=head.message_rate_in,
            producers=around.producers,
        ),
        subscription=Subscription(
            name=head.name,
            type=head.type,
            created_ms=_ms(head.created_at),
            state=state_word(head.state),
            state_since_ms=head.state_since_ms or 0,
            drain_s=head.drain_s,
            pause=_pause(around) if head.paused else None,
            backlog_messages=backlog_messages,
            backlog_bytes=parts.log.total_bytes - head.acked_bytes,
            consumers=head.consumers,
            in_flight_messages=head.unacked_messages,
            replay_entries=head.replay_entries,
            message_rate_out=head.message_rate_out,
            message_rate_acked=head.message_rate_acked,
            is_blocked=around.blocked,
            is_rate_limited=around.rate_limited,
            gap=around.gap,
            read_fault=around.read_fault,
            active_consumer=around.active_consumer,
            key_block=_key_block(around, parts.consumers),
            departure=_departure(around),
        ),
        cursor=_cursor(head, parts, around),
        consumers=tuple(_consumer(row, parts.pending) for row in parts.consumers),
        delayed=delayed,
        limits=_limits(head.topic_name, around.namespace_policies, around.topic_policies),
        dead_letters=_dead_letters(around),
        slowest=None
        if around.slowest_name is None
        else SlowestCursor(
            name=around.slowest_name,
            backlog_bytes=parts.log.total_bytes - (around.slowest_acked_bytes or 0),
        ),
        oldest_segment=_oldest_segment(around, parts),
        processes=Processes(
            broker_host=around.broker_host or "",
            broker_seen_ms=_on_this_clock(around.broker_seen_at, ahead_ms),
            beat_seen_ms=_on_this_clock(around.beat_at, ahead_ms),
            worker_seen_ms=_on_this_clock(around.worker_at, ahead_ms),
            tick_ms=broker_settings().tick_ms,
        ),
        database=database,
        disk=disk,
    )


def _ms(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp() * 1000)


def _on_this_clock(moment: datetime | None, ahead_ms: int) -> int:
    return 0 if moment is None else _ms(moment) + ahead_ms


def _pause(around: _Around) -> Pause:
    return Pause(who=around.paused_by or "", at_ms=_ms(around.paused_at), reason=around.paused_reason or "")


def _departure(around: _Around) -> Departure | None:
    if around.left_name is None:
        return None
    return Departure(
        name=around.left_name,
        address=around.left_address or "",
        client_version=around.left_version or "",
        at_ms=around.left_ms or 0,
        cause=around.left_cause or "",
        detail=around.left_detail or "",
    )


def _key_block(around: _Around, rows: Sequence[ConsumerRow]) -> KeyBlock | None:
    if around.key_slot is None or around.key_slot < 0:
        return None
    return KeyBlock(
        slot=around.key_slot,
        consumer_key=around.key_consumer or 0,
        consumer_name=next((row.name for row in rows if row.key == around.key_consumer), ""),
        waiting_entries=around.key_waiting_entries or 0,
        is_draining=bool(around.key_is_draining),
    )


def _consumer(row: ConsumerRow, deliveries: Sequence[PendingRow]) -> Consumer:
    mine = [each for each in deliveries if each.consumer_key == row.key]
    # `deliveries` covers only the first positions, so the oldest delivery may be missing.
    delivered_ms = [row.oldest_delivered_ms, *(each.delivered_ms for each in mine)]
    oldest_ms = min((each for each in delivered_ms if each), default=0)
    return Consumer(
        key=row.key,
        name=row.name,
        address=row.address,
        client_version=row.client_version,
        connected_ms=row.connected_ms,
        permits=row.permits,
        unacked_messages=row.unacked_messages,
        is_blocked=row.blocked,
        is_writable=row.writable,
        last_flow_ms=row.last_flow_ms,
        last_delivery_ms=row.last_delivery_ms,
        last_ack_ms=row.last_ack_ms,
        oldest_delivered_ms=oldest_ms,
        oldest_position=next((each.place for each in mine if each.delivered_ms == oldest_ms), ""),
    )


def _cursor(head: SubscriptionHead, parts: Parts, around: _Around) -> Cursor:
    log, acked, begin = parts.log, parts.acked, parts.mark_delete + 1
    unread: int | None = None
    if head.read_ledger is not None and head.read_entry is not None and acked.complete:
        read = max(begin, log.index_of(head.read_ledger, head.read_entry))
        unread = (
            log.end - read - sum(last - max(first, read) + 1 for first, last in acked.runs if last >= read)
        )
    return Cursor(
        unacked_entries=log.end - begin - acked.entries if acked.complete else None,
        unread_entries=unread,
        in_flight_entries=sum(row.last_entry - row.first_entry + 1 for row in parts.pending),
        first_hole_entries=acked.runs[0][0] - begin if acked.runs else 0,
        acked_behind_entries=acked.entries,
        first=None if parts.first is None else _first(parts.first, parts.pending, around),
    )


def _first(entry: EntryAt, deliveries: Sequence[PendingRow], around: _Around) -> FirstUnacked:
    ledger_id, entry_id = entry.place
    delivery = next(
        (
            row
            for row in deliveries
            if row.ledger_id == ledger_id and row.first_entry <= entry_id <= row.last_entry
        ),
        None,
    )
    return FirstUnacked(
        position=f"{ledger_id}:{entry_id}",
        messages=entry.messages,
        appended_ms=entry.append_ms,
        redelivery_count=around.first_redeliveries or 0 if delivery is None else delivery.redelivery_count,
        consumer_key=0 if delivery is None else delivery.consumer_key,
        consumer_name="" if delivery is None else delivery.consumer_name,
        delivered_ms=0 if delivery is None else delivery.delivered_ms,
        broker_keeps_time=delivery is not None and delivery.deadline_ms is not None,
    )


def _delayed(rows: Sequence[_DelayedRow], parts: Parts, most: int) -> Delayed | None:
    begins = [first for first, _ in parts.acked.runs]
    waiting = []
    for row in rows[:most]:
        index = parts.log.index_of(row.ledger_id, row.entry_id)
        at = bisect_right(begins, index) - 1
        is_acked = index <= parts.mark_delete or (at >= 0 and index <= parts.acked.runs[at][1])
        if not is_acked:
            waiting.append(row.deliver_at_ms)
    is_whole = len(rows) <= most
    if is_whole and not waiting:
        return None
    return Delayed(entries=len(waiting), next_due_ms=waiting[0] if waiting else 0, is_whole=is_whole)


def _limits(topic: str, namespace: Mapping[str, Any], own: Mapping[str, Any]) -> Limits:
    settings = broker_settings()
    policies = effective_policies(settings, namespace, own, where=topic)

    consumer, subscription = policies.max_unacked_per_consumer, policies.max_unacked_per_subscription
    return Limits(
        unacked_per_consumer=settings.max_unacked_per_consumer if consumer < 0 else consumer,
        unacked_per_subscription=settings.max_unacked_per_subscription if subscription < 0 else subscription,
        dispatch_rates=tuple(
            DispatchRate(
                policy=name,
                per_second=getattr(policies, name),
                set_on="topic" if name in own else "namespace",
            )
            for name in _RATES
            if getattr(policies, name)
        ),
        quota_bytes=policies.backlog_quota_bytes,
        quota_ms=policies.backlog_quota_ms,
        quota_policy=policies.backlog_quota_policy.value,
    )


def _dead_letters(around: _Around) -> DeadLetters | None:
    if around.letters_topic is None:
        return None
    return DeadLetters(
        topic=around.letters_topic,
        messages=around.letters_messages or 0,
        subscriptions=around.letters_subscriptions or 0,
        consumers=around.letters_consumers or 0,
        backlog_messages=around.letters_backlog or 0,
    )


def _oldest_segment(around: _Around, parts: Parts) -> OldestSegment | None:
    if parts.first is None or around.segment_id not in parts.log.stores_of([parts.first.place]):
        return None
    return OldestSegment(
        id=around.segment_id or 0,
        closed_ms=around.segment_closed_ms or 0,
        ledgers=around.segment_ledgers or 0,
    )


def _database() -> Database | None:
    row = fetch(_DatabaseRow, "diagnosis", "database", {})[0]
    if not row.is_visible:
        return None
    return Database(
        waiting_statements=row.waiting_statements,
        longest_wait_s=row.longest_wait_s,
        waiting_query=row.waiting_query,
        blocking_pid=row.blocking_pid,
        blocking_program=row.blocking_program,
        longest_transaction_s=row.longest_transaction_s,
        transaction_pid=row.transaction_pid,
        transaction_program=row.transaction_program,
        transaction_state=row.transaction_state,
    )


def _disk() -> Disk | None:
    folder = getattr(django_settings, "EMBEDDED_DATABASE_DIR", None)
    if folder is None:
        return None
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(folder=str(folder), free_bytes=usage.free, total_bytes=usage.total)
