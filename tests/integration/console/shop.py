"""A topic with a past, written straight into the tables, for pages to show."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.utils.timezone import now

from broker.models import (
    BrokerProcess,
    ConsumerSession,
    Cursor,
    CursorChunk,
    Heartbeat,
    Ledger,
    Namespace,
    PendingAck,
    ProducerSession,
    Segment,
    Subscription,
    SubscriptionState,
    SubscriptionSummary,
    Tenant,
    Topic,
    TopicSummary,
)
from broker.storage.cursors.chunk_codec import encode_ack_sets
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

__all__ = ["ORDERS", "Shop", "connect", "make_topic", "make_topics", "open_shop"]

ORDERS = "persistent://public/default/orders"
BATCH_ENTRY = 3  # of the second ledger: five messages, of which 1 and 3 are acked
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
"""When topics and subscriptions were created. Charts show nothing from before."""

INSERT = (
    "INSERT INTO vela_entry (ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,"
    " cumulative_messages, cumulative_bytes, data) VALUES (%s, %s, %s, 0, NULL, %s, 0, %s, %s, %s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """The rows that tests refer to."""

    topic: Topic
    sealed: Ledger  # 10 entries of one message
    open: Ledger  # 6 entries; entry 3 is a batch of five
    billing: Subscription
    messages: int  # ever appended
    backlog: int  # of billing
    now_ms: int


def make_topic(
    name: str,
    *,
    backlog: int | None = None,
    rate: float = 0.0,
    parent: Topic | None = None,
    state: SubscriptionState | None = None,
    state_since_ms: int = 1,
) -> Topic:
    """Create a topic, and its summary if a backlog is given."""
    (topic,) = make_topics(
        {name: backlog}, rate=rate, parent=parent, state=state, state_since_ms=state_since_ms
    )
    return topic


def make_topics(
    backlogs: Mapping[str, int | None],
    *,
    rate: float = 0.0,
    parent: Topic | None = None,
    state: SubscriptionState | None = None,
    state_since_ms: int = 1,
) -> list[Topic]:
    """Create topics by name, each with a summary if it has a backlog here."""
    topics = Topic.objects.bulk_create(
        Topic(namespace=_namespace_of(name), name=name, parent=parent) for name in backlogs
    )
    Topic.objects.filter(pk__in=[topic.pk for topic in topics]).update(created_at=LONG_AGO)
    now_ms = int(time.time() * 1000)
    TopicSummary.objects.bulk_create(
        TopicSummary(
            topic=topic,
            messages_in=100,
            bytes_in=1000,
            stored_bytes=1000,
            producers=1,
            message_rate_in=rate,
            byte_rate_in=rate * 10,
            last_append_ms=now_ms,
            max_backlog_messages=backlog,
            updated_ms=now_ms,
            state=state,
            state_since_ms=state_since_ms,
        )
        for topic, backlog in zip(topics, backlogs.values(), strict=True)
        if backlog is not None
    )
    return topics


def _namespace_of(name: str) -> Namespace:
    tenant, namespace, _ = name.removeprefix("persistent://").split("/", 2)
    if (found := Namespace.objects.filter(tenant__name=tenant, name=namespace).first()) is not None:
        return found
    owner = Tenant.objects.filter(name=tenant).first() or Tenant.objects.create(name=tenant)
    return Namespace.objects.create(tenant=owner, name=namespace)


NEVER_SILENT = timedelta(hours=1)
"""How far in the future heartbeats are: no process renews them, so in a slow test they would become too old."""


def open_shop() -> Shop:
    """Create `orders` with 20 messages in two ledgers, and the subscription `billing` in the middle of them."""
    now_ms = int(time.time() * 1000)
    topic = make_topic(ORDERS, backlog=14, rate=3.0, state=SubscriptionState.DRAINING)
    # Emptying the tables between tests deletes this row, but not the segment's own table.
    segment, _ = Segment.objects.get_or_create(pk=1, defaults={"opened_ms": now_ms})
    sealed, opened = Ledger.objects.bulk_create(
        [
            Ledger(
                topic=topic,
                segment=segment,
                state=Ledger.State.SEALED,
                entries=10,
                messages=10,
                size_bytes=1000,
                opened_ms=now_ms - 90_000,
                first_append_ms=now_ms - 90_000,
                last_append_ms=now_ms - 81_000,
            ),
            Ledger(
                topic=topic,
                segment=segment,
                entries_before=10,
                messages_before=10,
                bytes_before=1000,
                opened_ms=now_ms,
            ),
        ]
    )
    total = 0
    rows = []
    for ledger, entries in ((sealed, 10), (opened, 6)):
        for entry in range(entries):
            append_ms = now_ms - 90_000 + total * 1000
            batch = ledger is opened and entry == BATCH_ENTRY
            total += 5 if batch else 1
            data = _batch(append_ms) if batch else _single(ledger.pk, entry, append_ms)
            rows.append((ledger.pk, entry, 5 if batch else 1, append_ms, total, total * 100, data))
    with connection.cursor() as cursor:
        cursor.executemany(INSERT.replace("vela_entry", f"vela_entry_{segment.pk}"), rows)
    billing = _billing(topic, sealed, opened, now_ms)
    BrokerProcess.objects.create(
        id=1,
        host="shop-1",
        pid=77,
        started_at=now(),
        seen_at=now() + NEVER_SILENT,
        http_url="",
        pulsar_url="",
    )
    Heartbeat.objects.bulk_create(
        [Heartbeat(name=name, at=now() + NEVER_SILENT) for name in ("beat", "worker")],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["at"],
    )
    return Shop(
        topic=topic,
        sealed=sealed,
        open=opened,
        billing=billing,
        messages=total,
        backlog=total - 8,
        now_ms=now_ms,
    )


def _single(ledger_id: int, entry: int, append_ms: int) -> bytes:
    return encode_single(
        producer_name="till",
        sequence_id=entry,
        publish_time_ms=append_ms,
        payload=f'{{"order": "{ledger_id}-{entry}", "note": "<b>&amp;"}}'.encode(),
        properties={"region": "eu"},
        key=f"customer-{entry}",
    )


def _batch(append_ms: int) -> bytes:
    members = [OutgoingMessage(payload=f"member {number}".encode()) for number in range(5)]
    return encode_batch(members, producer_name="till", sequence_id=99, publish_time_ms=append_ms)


def connect(subscription: Subscription, *, key: int, now_ms: int) -> None:
    """Connect the consumer `clerk`, which has one unacked message and no permits."""
    ConsumerSession.objects.create(
        key=key,
        owner_epoch=1,
        topic_id=subscription.topic_id,
        subscription_id=subscription.pk,
        subscription_name=subscription.name,
        subscription_type="Shared",
        name="clerk",
        address="10.0.0.9:5000",
        client_version="Pulsar-CPP-v3.8.0",
        face="binary",
        priority=0,
        connected_ms=now_ms - 5000,
        permits=0,
        unacked_messages=1,
        blocked=True,
        writable=False,
        messages_out=9,
        bytes_out=900,
        messages_acked=8,
        messages_redelivered=3,
        last_flow_ms=now_ms - 4000,
        last_delivery_ms=now_ms - 3000,
        last_ack_ms=0,
        updated_ms=now_ms,
    )


def _billing(topic: Topic, sealed: Ledger, opened: Ledger, now_ms: int) -> Subscription:
    # Acked: entries 0-4 (mark-delete 4), then 7, and two members of the batch: 8 messages.
    billing = Subscription.objects.create(topic=topic, name="billing", type="Shared")
    Subscription.objects.filter(pk=billing.pk).update(created_at=LONG_AGO)
    Cursor.objects.create(
        subscription=billing,
        mark_delete_ledger=sealed.pk,
        mark_delete_entry=4,
        acked_messages=8,
        acked_entries=6,
        acked_bytes=600,
        version=2,
    )
    CursorChunk.objects.bulk_create(
        [
            CursorChunk(
                cursor=billing.cursor,
                ledger_id=sealed.pk,
                chunk=0,
                bits=bytes([1 << 7]),
                ack_sets=encode_ack_sets({}),
            ),
            CursorChunk(
                cursor=billing.cursor,
                ledger_id=opened.pk,
                chunk=0,
                bits=b"",
                ack_sets=encode_ack_sets({BATCH_ENTRY: 0b10101}),
            ),
        ]
    )
    SubscriptionSummary.objects.create(
        subscription=billing,
        acked_messages=88,  # of the 100 in the topic's summary, so the reported backlog is 12
        acked_bytes=8,
        read_ledger=sealed.pk,
        read_entry=6,
        consumers=1,
        unacked_messages=1,
        replay_entries=0,
        message_rate_out=5.0,
        message_rate_acked=5.0,
        messages_redelivered=3,
        updated_ms=now_ms,
        problems={"messages that consumers discarded: CHECKSUM_MISMATCH": 4},
        state=SubscriptionState.DRAINING,
        state_since_ms=now_ms - 60_000,
        drain_s=250,
    )
    connect(billing, key=1, now_ms=now_ms)
    PendingAck.objects.create(
        delivery_id=1,
        owner_epoch=1,
        topic_id=topic.pk,
        subscription_id=billing.pk,
        consumer_key=1,
        consumer_name="clerk",
        ledger_id=sealed.pk,
        first_entry=5,
        last_entry=5,
        messages=1,
        delivered_ms=now_ms - 3000,
        redelivery_count=3,
        deadline_ms=None,
    )
    ProducerSession.objects.create(
        key=1,
        owner_epoch=1,
        topic_id=topic.pk,
        name="till",
        address="10.0.0.8:4000",
        client_version="",
        face="websocket",
        connected_ms=now_ms - 5000,
        messages_in=20,
        bytes_in=2000,
        last_sequence_id=99,
        last_send_ms=now_ms - 100,
        updated_ms=now_ms,
    )
    return billing
