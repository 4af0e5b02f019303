"""What the console sees of memory: sessions, pending acks and summaries, written behind (design 4).

Only what changed, at most once a second. Nothing here is read to recover.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import psycopg

from broker.service.clock import Clock
from broker.service.connections import ConnectionPool, first_line
from broker.service.pending_report import pending_rows
from broker.service.problems import problems
from broker.service.rates import Rates
from broker.storage import cursors as cursor_store
from broker.storage import sessions as store

if TYPE_CHECKING:
    from broker.service.consumer import Consumer
    from broker.service.producer import Producer
    from broker.service.subscription import Subscription
    from broker.service.topic import Topic

__all__ = ["Reporter"]

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
_LONGEST_TEXT = 200  # characters of a client's free text


class Reporter:
    """Collects what changed and writes it once a second; a lost second is written with the next."""

    def __init__(self, pool: ConnectionPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._topics: set[Topic] = set()
        self._subscriptions: set[Subscription] = set()
        self._gone_consumers: list[int] = []
        self._gone_producers: list[int] = []
        self._rates = Rates()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Forget whoever was connected to an earlier broker, then begin."""
        async with self._pool.use() as connection:
            await store.forget_all(connection, self._clock.now_ms())
            await cursor_store.forget_pending(connection)
        self._task = asyncio.create_task(self._run(), name="reporter")

    async def stop(self) -> None:
        """Write a last time, if the database is there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await asyncio.wait_for(self._report(), timeout=2)
        except (TimeoutError, psycopg.Error) as error:
            log.info("the last summaries were not written: %s", error)
        await self._pool.close()

    def topic_changed(self, topic: Topic) -> None:
        """Messages came, or a producer came or went."""
        self._topics.add(topic)

    def changed(self, subscription: Subscription) -> None:
        """Messages went out, acks came in, or a consumer came."""
        self._subscriptions.add(subscription)

    def consumer_gone(self, subscription: Subscription, consumer: Consumer) -> None:
        """Its rows go with the next report."""
        self._gone_consumers.append(consumer.key)
        self.changed(subscription)

    def producer_gone(self, topic: Topic, producer: Producer) -> None:
        """Its row goes with the next report."""
        self._gone_producers.append(producer.key)
        self.topic_changed(topic)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self._report()
            except psycopg.OperationalError as error:
                log.info("report: the database is away (%s)", first_line(error))
            except psycopg.errors.ForeignKeyViolation as error:
                # Deleted between the look for its row and the insert; the next report finds it gone.
                log.info("report: something was deleted meanwhile (%s)", first_line(error))
            except Exception:  # the next report must come
                log.exception("report")

    async def _report(self) -> None:
        topics, self._topics = self._topics, set()
        subscriptions, self._subscriptions = self._subscriptions, set()
        gone_consumers, self._gone_consumers = self._gone_consumers, []
        gone_producers, self._gone_producers = self._gone_producers, []
        # A rate that has not come down to 0 yet is reported again although nothing changes any more.
        quiet = self._rates.still_moving()
        topics |= {each for each in quiet.topics if each.is_open}
        subscriptions |= {each for each in quiet.subscriptions if each.topic.is_open}
        topics |= {each.topic for each in subscriptions}
        if not (topics or subscriptions or gone_consumers or gone_producers):
            return
        try:
            await self._write(topics, subscriptions, gone_consumers, gone_producers)
        except BaseException:
            self._topics |= topics
            self._subscriptions |= subscriptions
            self._gone_consumers += gone_consumers
            self._gone_producers += gone_producers
            raise

    async def _write(
        self,
        topics: set[Topic],
        subscriptions: set[Subscription],
        gone_consumers: list[int],
        gone_producers: list[int],
    ) -> None:
        now_ms = self._clock.now_ms()
        durable = [each for each in subscriptions if each.is_durable and not each.is_deleted]
        consumers = [(each, consumer) for each in subscriptions for consumer in each.consumers.values()]
        async with self._pool.use() as connection:
            await store.upsert_producers(
                connection,
                [_producer_row(t, p, now_ms) for t in topics for p in t.producers.values()],
            )
            await store.upsert_consumers(connection, [_consumer_row(s, c, now_ms) for s, c in consumers])
            if gone_consumers or gone_producers:
                await store.delete_sessions(connection, consumers=gone_consumers, producers=gone_producers)
            await cursor_store.replace_pending(
                connection,
                consumer_keys=[consumer.key for _, consumer in consumers] + gone_consumers,
                rows=[
                    row
                    for each, consumer in consumers
                    if each.is_durable
                    for row in pending_rows(each, consumer)
                ],
            )
            await store.upsert_subscription_summaries(
                connection, [self._subscription_row(each, now_ms) for each in durable]
            )
            await store.upsert_topic_summaries(connection, [self._topic_row(each, now_ms) for each in topics])
            keys = [f"topic:{each.topic_id}" for each in topics]
            keys += [f"sub:{each.subscription_id}" for each in durable]
            await store.notify_pages(
                connection, [json.dumps(keys[at : at + 200]) for at in range(0, len(keys), 200)]
            )

    def _topic_row(self, topic: Topic, now_ms: int) -> store.TopicSummaryRow:
        ledgers = topic.log.ledgers
        backlogs = [each.cursor.backlog_messages for each in topic.subscriptions.values() if each.is_durable]
        messages_rate, bytes_rate = self._rates.of_topic(
            topic, ledgers.total_messages, ledgers.total_bytes, now_ms
        )
        return store.TopicSummaryRow(
            topic_id=topic.topic_id,
            messages_in=ledgers.total_messages,
            bytes_in=ledgers.total_bytes,
            stored_bytes=sum(info.size_bytes for info in ledgers.infos()),
            producers=len(topic.producers),
            message_rate_in=messages_rate,
            byte_rate_in=bytes_rate,
            last_append_ms=topic.last_append_ms
            or max((i.last_append_ms for i in ledgers.infos()), default=0),
            max_backlog_messages=max(backlogs, default=0),
            last_used_ms=topic.last_used_ms,
            updated_ms=now_ms,
        )

    def _subscription_row(self, each: Subscription, now_ms: int) -> store.SubscriptionSummaryRow:
        rate_out, rate_acked = self._rates.of_subscription(
            each, each.messages_out, each.messages_acked, now_ms
        )
        return store.SubscriptionSummaryRow(
            subscription_id=each.subscription_id,
            backlog_messages=each.cursor.backlog_messages,
            backlog_bytes=each.cursor.backlog_bytes,
            read_ledger=each.read_position.ledger_id,
            read_entry=each.read_position.entry_id,
            consumers=len(each.consumers),
            unacked_messages=each.dispatcher.unacked_messages,
            replay_entries=each.dispatcher.replay_entries,
            message_rate_out=rate_out,
            message_rate_acked=rate_acked,
            messages_redelivered=each.messages_redelivered,
            last_used_ms=each.last_used_ms,
            updated_ms=now_ms,
            problems=json.dumps(problems(each)),
        )


def _consumer_row(subscription: Subscription, consumer: Consumer, now_ms: int) -> store.ConsumerRow:
    return store.ConsumerRow(
        key=consumer.key,
        owner_epoch=subscription.topic.owner_epoch,
        topic_id=subscription.topic.topic_id,
        subscription_id=subscription.subscription_id if subscription.is_durable else None,
        subscription_name=subscription.name,
        subscription_type=subscription.type.value,
        name=consumer.name,
        address=consumer.identity.address,
        client_version=_storable(consumer.identity.client_version),
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
        last_flow_ms=consumer.last_flow_ms,
        last_delivery_ms=consumer.last_delivery_ms,
        last_ack_ms=consumer.last_ack_ms,
        updated_ms=now_ms,
    )


def _producer_row(topic: Topic, producer: Producer, now_ms: int) -> store.ProducerRow:
    return store.ProducerRow(
        key=producer.key,
        owner_epoch=topic.owner_epoch,
        topic_id=topic.topic_id,
        name=producer.name,
        address=producer.identity.address,
        client_version=_storable(producer.identity.client_version),
        face=producer.identity.face,
        connected_ms=producer.connected_ms,
        messages_in=producer.messages_in,
        bytes_in=producer.bytes_in,
        last_sequence_id=producer.last_sent_sequence_id,
        last_send_ms=producer.last_send_ms,
        updated_ms=now_ms,
    )


def _storable(text: str) -> str:
    """A client's free text as PostgreSQL can hold it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")[:_LONGEST_TEXT]
