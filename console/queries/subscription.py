"""Subscriptions with their cursors, and the deliveries that wait for an ack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from console.queries.database import fetch, fetch_one

__all__ = [
    "PENDING_MOST",
    "PENDING_SHOWN",
    "PartitionedHead",
    "PendingRow",
    "SubscriptionHead",
    "partitioned_head",
    "pending",
    "pending_of",
    "subscription_head",
    "subscription_heads",
]

PENDING_SHOWN = 10
PENDING_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHead:
    """A subscription's cursor, and the numbers that the broker last reported. An unreported number is None."""

    id: int
    name: str
    type: str
    paused: bool
    created_at: datetime
    topic_id: int
    topic_name: str
    partition: int
    mark_delete_ledger: int
    mark_delete_entry: int
    acked_messages: int  # Including trimmed messages
    acked_entries: int
    acked_bytes: int
    version: int  # Rises when something other than a client ack changes the cursor
    read_ledger: int | None
    read_entry: int | None
    consumers: int | None
    unacked_messages: int | None
    replay_entries: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    problems: dict[str, int] | None  # Maps each problem to its count
    state: int | None
    state_since_ms: int | None
    drain_s: int | None  # Estimated seconds from updated_ms until the backlog is empty
    message_rate_in: float | None
    delays: bool  # Whether the subscription holds delayed messages back until they are due


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """Entries that were delivered together and wait for an ack.

    On an Exclusive or Failover subscription, a consumer's first row counts all unacked messages of the consumer. In the
    consumer's other rows, `messages` is 0.
    """

    subscription_id: int
    delivery_id: int
    consumer_key: int
    consumer_name: str
    ledger_id: int
    first_entry: int
    last_entry: int
    messages: int
    delivered_ms: int
    redelivery_count: int  # Always 0 for Exclusive and Failover subscriptions
    deadline_ms: int | None

    @property
    def place(self) -> str:
        """The position of the first entry, written as ledger:entry."""
        return f"{self.ledger_id}:{self.first_entry}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedHead:
    """A subscription on some or all partitions of a topic."""

    topic_name: str
    name: str
    partitions: list[int]


def subscription_head(topic: str, subscription: str) -> SubscriptionHead | None:
    """Find a subscription by topic name and subscription name."""
    named = {"ids": [], "topic": topic, "subscription": subscription}
    return fetch_one(SubscriptionHead, "subscription", "heads", named)


def subscription_heads(ids: Sequence[int]) -> dict[int, SubscriptionHead]:
    """Return the subscriptions with these ids, if they exist."""
    asked = {"ids": list(ids), "topic": "", "subscription": ""}
    return {row.id: row for row in fetch(SubscriptionHead, "subscription", "heads", asked)}


def partitioned_head(topic: str, subscription: str) -> PartitionedHead | None:
    """Find a subscription of a partitioned topic by topic name and subscription name."""
    return fetch_one(
        PartitionedHead, "subscription", "partitioned_head", {"topic": topic, "subscription": subscription}
    )


def pending(subscription_id: int, limit: int, *, consumer_key: int = 0) -> list[PendingRow]:
    """Return at most `limit` deliveries, sorted by position. Consumer key 0 means all consumers."""
    return pending_of([subscription_id], limit, consumer_key=consumer_key)[subscription_id]


def pending_of(
    subscription_ids: Sequence[int], limit: int, *, consumer_key: int = 0
) -> dict[int, list[PendingRow]]:
    """Return at most `limit` deliveries of each subscription, sorted by position."""
    found: dict[int, list[PendingRow]] = {each: [] for each in subscription_ids}
    asked = {"subscriptions": list(found), "consumer_key": consumer_key, "limit": limit}
    for row in fetch(PendingRow, "subscription", "pending", asked):
        found[row.subscription_id].append(row)
    return found
