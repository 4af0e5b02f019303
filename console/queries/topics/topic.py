"""Totals, partitions, subscriptions and waiting pulls of one topic.

A pull is a request for messages from an offset. The broker parks a pull until a message arrives or the pull times out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from console.queries.database import containing, fetch, fetch_one
from console.queries.topics.log import Ends

__all__ = [
    "ROWS",
    "ROWS_TO_CHOOSE",
    "ParkedPull",
    "ParkedQueue",
    "PartitionRow",
    "SubscriptionRow",
    "TopicHead",
    "parked_queues",
    "partitions",
    "subscription_names",
    "subscriptions",
    "topic_head",
]

ROWS = 500
ROWS_TO_CHOOSE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHead:
    """A topic with totals over its partitions. A number is None if the broker never reported it."""

    id: int
    name: str
    partitions: int  # 0 means not partitioned
    partition: int  # -1 means not a partition
    parent_name: str | None
    created_at: datetime
    terminated_at: datetime | None
    policies: dict[str, Any]  # Policies of the namespace
    owner_epoch: int | None
    messages_in: int | None
    stored_bytes: int | None
    producers: int | None
    message_rate_in: float | None
    byte_rate_in: float | None
    last_append_ms: int | None  # 0 means never
    # Largest backlog of a durable subscription. For a partitioned topic, the sum of each partition's largest backlog.
    backlog_messages: int | None
    updated_ms: int | None
    state: int | None  # Worst state of any durable subscription; None means unknown
    state_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition of a partitioned topic."""

    id: int
    name: str
    partition: int
    messages_in: int | None
    stored_bytes: int | None
    message_rate_in: float | None
    backlog_messages: int | None
    last_append_ms: int | None
    updated_ms: int | None
    state: int | None  # Worst state of any durable subscription; None means unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One subscription of the topic or of a partition."""

    id: int
    name: str
    type: str
    topic_id: int
    topic_name: str
    partition: int
    mark_delete_ledger: int
    mark_delete_entry: int
    acked_messages: int
    backlog_messages: int  # All appended messages minus all acked messages
    backlog_bytes: int
    consumers: int | None
    unacked_messages: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    state: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedPull:
    """A pull that waits for messages."""

    offset: int
    parked_ms: int
    due_ms: int  # When the broker answers even without a message
    is_filtered: bool
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedQueue:
    """The waiting pulls of one queue, which is a partition or a topic without partitions."""

    queue: int  # The partition's number, or 0 if the topic is not partitioned
    topic_name: str
    pulls: int
    oldest: tuple[ParkedPull, ...]  # At most 50 pulls
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParkedRow:
    partition: int
    topic_name: str
    pulls: int
    oldest: list[dict[str, Any]]
    updated_ms: int


def topic_head(name: str) -> TopicHead | None:
    """Find a topic by its full name."""
    return fetch_one(TopicHead, "topic", "head", {"name": name})


def partitions(topic_id: int) -> list[PartitionRow]:
    """Return all partitions of a topic, sorted by number."""
    return fetch(PartitionRow, "topic", "partitions", {"topic_id": topic_id})


def subscriptions(topic_id: int, ends: Ends) -> list[SubscriptionRow]:
    """Return at most 500 subscriptions of a topic and its partitions, sorted by name."""
    return fetch(
        SubscriptionRow, "topic", "subscriptions", {"topic_id": topic_id, **asdict(ends), "limit": ROWS}
    )


def parked_queues(topic_id: int) -> list[ParkedQueue]:
    """Return the waiting pulls of a topic, or of at most 100 of its partitions."""
    return [
        ParkedQueue(
            queue=max(row.partition, 0),
            topic_name=row.topic_name,
            pulls=row.pulls,
            oldest=tuple(ParkedPull(**each) for each in row.oldest),
            updated_ms=row.updated_ms,
        )
        for row in fetch(_ParkedRow, "topic", "parked", {"topic_id": topic_id})
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    name: str


def subscription_names(topic_id: int, *, search: str, after: str) -> list[str]:
    """Return at most 51 subscription names that contain `search`, in alphabetical order.

    `after` is the last name on the previous page.
    """
    asked = {
        "topic_id": topic_id,
        "pattern": containing(search),
        "after": after,
        "limit": ROWS_TO_CHOOSE + 1,
    }
    return [row.name for row in fetch(_Name, "topic", "subscription_names", asked)]
