"""The tables in PostgreSQL, one class for each.

The broker reads and writes these tables through broker/storage/sql. Django's admin, tests, migrations and tools use
the ORM, and the path of a message never does. Times that the broker computes with are milliseconds since 1970
(`…_ms`); the others are `timestamptz`.
"""

from __future__ import annotations

from broker.models.acts import Act, Bookmark
from broker.models.deduplication import DeduplicatedProducer, Deduplication
from broker.models.history import (
    StatsPoint10s,
    StatsPoint60s,
    StatsPoint600s,
    StatsPoint3600s,
    StatsProgress,
)
from broker.models.log import DelayedEntry, Entry, Ledger, Segment
from broker.models.outbox import Outbox
from broker.models.processes import BrokerProcess, Heartbeat
from broker.models.sessions import ConsumerSession, ProducerSession
from broker.models.subscriptions import Cursor, CursorChunk, PendingAck, Subscription
from broker.models.summaries import (
    ConsumerDeparture,
    SubscriptionObstacles,
    SubscriptionState,
    SubscriptionSummary,
    TopicSummary,
)
from broker.models.topics import Namespace, Schema, Tenant, Topic, TopicOwner

__all__ = [
    "Act",
    "Bookmark",
    "BrokerProcess",
    "ConsumerDeparture",
    "ConsumerSession",
    "Cursor",
    "CursorChunk",
    "DeduplicatedProducer",
    "Deduplication",
    "DelayedEntry",
    "Entry",
    "Heartbeat",
    "Ledger",
    "Namespace",
    "Outbox",
    "PendingAck",
    "ProducerSession",
    "Schema",
    "Segment",
    "StatsPoint10s",
    "StatsPoint60s",
    "StatsPoint600s",
    "StatsPoint3600s",
    "StatsProgress",
    "Subscription",
    "SubscriptionObstacles",
    "SubscriptionState",
    "SubscriptionSummary",
    "Tenant",
    "Topic",
    "TopicOwner",
    "TopicSummary",
]
