"""The broker's tables in PostgreSQL.

Code that handles messages never uses the ORM.
"""

from __future__ import annotations

from broker.models.access import AccessToken, GrantedPermission
from broker.models.acts import Act, Bookmark
from broker.models.alerts import AlertFiring, AlertNotification, AlertRule, Measure, Severity
from broker.models.compaction import CompactedEntry, Compaction, CompactionKey, CompactionSurvey
from broker.models.deduplication import DeduplicatedProducer, Deduplication
from broker.models.history import (
    DeliveryStory,
    StatsPoint10s,
    StatsPoint60s,
    StatsPoint600s,
    StatsPoint3600s,
    StatsProgress,
    StoryEvent,
)
from broker.models.log import DelayedEntry, Entry, Ledger, LedgerFile, Segment
from broker.models.outbox import Outbox
from broker.models.pipeline import InsightHour, PipelineRun, PipelineSchedule
from broker.models.processes import BrokerProcess, Heartbeat
from broker.models.sessions import ConsumerSession, ParkedPulls, ProducerSession
from broker.models.subscriptions import Cursor, CursorChunk, PendingAck, Subscription
from broker.models.summaries import (
    ConsumerDeparture,
    ListedTopic,
    SubscriptionObstacles,
    SubscriptionState,
    SubscriptionSummary,
    TopicSummary,
)
from broker.models.topics import Namespace, Schema, Tenant, Topic, TopicOwner

__all__ = [
    "AccessToken",
    "Act",
    "AlertFiring",
    "AlertNotification",
    "AlertRule",
    "Bookmark",
    "BrokerProcess",
    "CompactedEntry",
    "Compaction",
    "CompactionKey",
    "CompactionSurvey",
    "ConsumerDeparture",
    "ConsumerSession",
    "Cursor",
    "CursorChunk",
    "DeduplicatedProducer",
    "Deduplication",
    "DelayedEntry",
    "DeliveryStory",
    "Entry",
    "GrantedPermission",
    "Heartbeat",
    "InsightHour",
    "Ledger",
    "LedgerFile",
    "ListedTopic",
    "Measure",
    "Namespace",
    "Outbox",
    "ParkedPulls",
    "PendingAck",
    "PipelineRun",
    "PipelineSchedule",
    "ProducerSession",
    "Schema",
    "Segment",
    "Severity",
    "StatsPoint10s",
    "StatsPoint60s",
    "StatsPoint600s",
    "StatsPoint3600s",
    "StatsProgress",
    "StoryEvent",
    "Subscription",
    "SubscriptionObstacles",
    "SubscriptionState",
    "SubscriptionSummary",
    "Tenant",
    "Topic",
    "TopicOwner",
    "TopicSummary",
]
