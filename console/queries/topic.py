"""One topic: its numbers, subscriptions, producers and partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from console.queries.database import fetch, fetch_one
from console.queries.log import Ends

__all__ = [
    "ROWS",
    "PartitionRow",
    "ProducerRow",
    "SubscriptionRow",
    "TopicHead",
    "partitions",
    "producers",
    "subscriptions",
    "topic_head",
]

ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHead:
    """The topic itself, with the sums of its partitions. Its numbers are None if the broker never reported on it."""

    id: int
    name: str
    partitions: int  # 0 = not partitioned
    partition: int  # -1 = not a partition
    parent_name: str | None
    created_at: datetime
    terminated_at: datetime | None
    policies: dict[str, Any]  # of the namespace
    owner_epoch: int | None
    messages_in: int | None
    stored_bytes: int | None
    producers: int | None
    message_rate_in: float | None  # per second
    byte_rate_in: float | None  # per second
    last_append_ms: int | None  # 0 = never
    backlog_messages: int | None  # of the worst subscription
    updated_ms: int | None
    state: int | None  # the worst of its subscriptions', those of partitions included; None = it has none
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
    state: int | None  # the worst of its subscriptions', None = it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One subscription of the topic or of one of its partitions."""

    id: int
    name: str
    type: str
    topic_id: int  # of the partition
    topic_name: str
    partition: int
    mark_delete_ledger: int
    mark_delete_entry: int
    acked_messages: int
    backlog_messages: int  # exact: messages in the log less messages acked by the stored cursor
    consumers: int | None
    unacked_messages: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    state: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """One connected producer."""

    key: int
    name: str
    partition: int
    address: str
    client_version: str
    face: str
    connected_ms: int
    messages_in: int
    bytes_in: int
    last_sequence_id: int
    last_send_ms: int  # 0 = never
    updated_ms: int
    properties: dict[str, str]  # the client's own


def topic_head(name: str) -> TopicHead | None:
    """Find a topic by its full name. One query."""
    return fetch_one(TopicHead, "topic", "head", {"name": name})


def partitions(topic_id: int) -> list[PartitionRow]:
    """Return all partitions, by index. One query."""
    return fetch(PartitionRow, "topic", "partitions", {"topic_id": topic_id})


def subscriptions(topic_id: int, ends: Ends) -> list[SubscriptionRow]:
    """Return at most 500 subscriptions, by name and partition. One query."""
    return fetch(
        SubscriptionRow, "topic", "subscriptions", {"topic_id": topic_id, **asdict(ends), "limit": ROWS}
    )


def producers(topic_id: int) -> list[ProducerRow]:
    """Return at most 500 producers, by name. One query."""
    return fetch(ProducerRow, "topic", "producers", {"topic_id": topic_id, "limit": ROWS})
