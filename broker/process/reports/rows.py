"""Build the rows that a report stores for the console."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.process.reports.obstacles import obstacles_of
from broker.process.reports.pending import pending_rows
from broker.process.reports.problems import problems
from broker.process.reports.texts import storable
from broker.storage.cursors import sessions as store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from broker.process.reports.standings import Standings
    from broker.producers.producer import Producer
    from broker.storage.cursors.cursors import PendingRow
    from broker.storage.cursors.obstacles import ObstaclesRow
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription
    from broker.topics.rates import Rates
    from broker.topics.topic import Topic

__all__ = ["SLICE", "TopicReport", "report_of"]

SLICE: Final = 200  # After this many topics and subscriptions (about 10 ms of work), other tasks may run

_MOST_PROPERTIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """One topic's part of a report."""

    topic: Topic
    row: store.TopicSummaryRow
    producers: Sequence[store.ProducerRow]
    subscriptions: Sequence[store.SubscriptionSummaryRow]
    consumers: Sequence[store.ConsumerRow]
    pending: Sequence[PendingRow]
    obstacles: Mapping[Subscription, ObstaclesRow]


async def report_of(
    topic: Topic, changed: Iterable[Subscription], rates: Rates, standings: Standings, now_ms: int
) -> TopicReport:
    """Return the current state of the topic, its producers and its changed subscriptions."""
    subscriptions: list[store.SubscriptionSummaryRow] = []
    consumers: list[store.ConsumerRow] = []
    pending: list[PendingRow] = []
    obstacles: dict[Subscription, ObstaclesRow] = {}
    for number, each in enumerate(changed, start=1):
        if each.is_durable and not each.is_deleted:
            subscriptions.append(_subscription_row(each, rates, standings, now_ms))
            obstacles[each] = obstacles_of(each, now_ms)
        else:
            # Call this before `rates.of_consumer`. In the other branch, `_subscription_row` makes the call.
            rates.of_subscription(each, each.messages_out, each.counters.messages_acked, now_ms)
        for consumer in each.consumers.values():
            its_pending = pending_rows(each, consumer) if each.is_durable else []
            consumers.append(_consumer_row(each, consumer, its_pending, rates, now_ms))
            pending += its_pending
        if number % SLICE == 0:
            await asyncio.sleep(0)
    # Read the published count last, so that no page shows more acked messages than published messages.
    row = _topic_row(topic, rates, standings, now_ms)
    return TopicReport(
        topic=topic,
        row=row,
        producers=[_producer_row(topic, each, rates, now_ms) for each in topic.producers.values()],
        subscriptions=subscriptions,
        consumers=consumers,
        pending=pending,
        obstacles=obstacles,
    )


def _topic_row(topic: Topic, rates: Rates, standings: Standings, now_ms: int) -> store.TopicSummaryRow:
    ledgers = topic.log.ledgers
    durable = [each for each in topic.subscriptions.values() if each.is_durable]
    behind = max(durable, key=lambda each: each.cursor.backlog_messages, default=None)
    backlog_messages = behind.cursor.backlog_messages if behind else 0
    worst = standings.worst(topic)
    messages_rate, bytes_rate = rates.of_topic(topic, ledgers.total_messages, ledgers.total_bytes, now_ms)
    return store.TopicSummaryRow(
        topic_id=topic.topic_id,
        messages_in=ledgers.total_messages,
        bytes_in=ledgers.total_bytes,
        stored_bytes=sum(info.size_bytes for info in ledgers.infos()),
        producers=len(topic.producers),
        message_rate_in=messages_rate,
        byte_rate_in=bytes_rate,
        last_append_ms=topic.last_append_ms or max((i.last_append_ms for i in ledgers.infos()), default=0),
        max_backlog_messages=backlog_messages,
        subscriptions=len(durable),
        worst_subscription=behind.name if behind and backlog_messages else "",
        message_rate_acked=sum(map(rates.acked_per_s, durable), 0.0) if topic.is_open else 0.0,
        last_used_ms=topic.last_used_ms,
        updated_ms=now_ms,
        state=None if worst is None else worst.value,
        state_since_ms=now_ms,
    )


def _subscription_row(
    each: Subscription, rates: Rates, standings: Standings, now_ms: int
) -> store.SubscriptionSummaryRow:
    acked, verdict = each.cursor.totals, standings.verdict(each, now_ms)
    rate_out, rate_acked = rates.of_subscription(
        each, each.messages_out, each.counters.messages_acked, now_ms
    )
    return store.SubscriptionSummaryRow(
        subscription_id=each.subscription_id,
        acked_messages=acked.messages,
        acked_bytes=acked.size_bytes,
        read_ledger=each.read_position.ledger_id,
        read_entry=each.read_position.entry_id,
        consumers=len(each.consumers),
        unacked_messages=each.dispatcher.unacked_messages,
        replay_entries=each.dispatcher.replay_entries,
        message_rate_out=rate_out,
        message_rate_acked=rate_acked,
        messages_redelivered=each.counters.messages_redelivered,
        last_used_ms=each.last_used_ms,
        updated_ms=now_ms,
        problems=json.dumps(problems(each)),
        state=verdict.state.value,
        state_since_ms=verdict.since_ms,
        drain_s=verdict.drain_s,
    )


def _consumer_row(
    subscription: Subscription, consumer: Consumer, pending: Sequence[PendingRow], rates: Rates, now_ms: int
) -> store.ConsumerRow:
    rate_out, rate_acked, rate_redelivered = rates.of_consumer(subscription, consumer, now_ms)
    return store.ConsumerRow(
        key=consumer.key,
        owner_epoch=subscription.log.owner_epoch,
        topic_id=subscription.log.topic_id,
        subscription_id=subscription.subscription_id if subscription.is_durable else None,
        subscription_name=subscription.name,
        subscription_type=subscription.type.value,
        name=consumer.name,
        address=consumer.identity.address,
        client_version=storable(consumer.identity.client_version),
        face=consumer.identity.face,
        priority=consumer.dispatch.priority,
        connected_ms=consumer.connected_ms,
        permits=consumer.dispatch.permits.balance,
        unacked_messages=consumer.dispatch.unacked_messages,
        blocked=consumer.dispatch.blocked,
        writable=consumer.dispatch.writable,
        messages_out=consumer.messages_out,
        bytes_out=consumer.bytes_out,
        messages_acked=consumer.messages_acked,
        messages_redelivered=consumer.messages_redelivered,
        message_rate_out=rate_out,
        message_rate_acked=rate_acked,
        message_rate_redelivered=rate_redelivered,
        last_flow_ms=consumer.last_flow_ms,
        last_delivery_ms=consumer.last_delivery_ms,
        last_ack_ms=consumer.last_ack_ms,
        oldest_delivered_ms=min((row.delivered_ms for row in pending), default=0),
        updated_ms=now_ms,
        properties=_properties(consumer.request.properties),
        protocol_version=consumer.identity.protocol_version,
    )


def _producer_row(topic: Topic, producer: Producer, rates: Rates, now_ms: int) -> store.ProducerRow:
    message_rate, byte_rate = rates.of_producer(topic, producer, now_ms)
    deduplication = topic.deduplication
    return store.ProducerRow(
        key=producer.key,
        owner_epoch=topic.owner_epoch,
        topic_id=topic.topic_id,
        name=producer.name,
        address=producer.identity.address,
        client_version=storable(producer.identity.client_version),
        face=producer.identity.face,
        connected_ms=producer.connected_ms,
        messages_in=producer.messages_in,
        bytes_in=producer.bytes_in,
        message_rate_in=message_rate,
        byte_rate_in=byte_rate,
        last_sequence_id=producer.last_sent_sequence_id,
        last_send_ms=producer.last_send_ms,
        updated_ms=now_ms,
        properties=_properties(producer.request.properties),
        protocol_version=producer.identity.protocol_version,
        access_mode=producer.access_mode.value,
        deduplicated=deduplication is not None and deduplication.is_enabled and producer.is_deduplicated,
        last_error=storable(producer.last_error),
    )


def _properties(given: Mapping[str, str]) -> str:
    if not given:
        return "{}"
    shown = islice(given.items(), _MOST_PROPERTIES)
    return json.dumps({storable(name): storable(value) for name, value in shown})
