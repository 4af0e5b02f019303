"""One subscription: numbers, consumers, pending acks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from console.queries.database import fetch, fetch_one

__all__ = [
    "PENDING_MOST",
    "PENDING_SHOWN",
    "ConsumerRow",
    "PendingRow",
    "SubscriptionHead",
    "consumers",
    "pending",
    "subscription_head",
]

CONSUMERS_SHOWN = 500
PENDING_SHOWN = 10
PENDING_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHead:
    """The stored cursor, and the numbers that the broker last reported (None if it never did)."""

    id: int
    name: str
    type: str
    paused: bool  # by an operator
    created_at: datetime
    topic_id: int
    topic_name: str
    partition: int
    mark_delete_ledger: int
    mark_delete_entry: int
    acked_messages: int  # cumulative over the topic
    acked_entries: int
    acked_bytes: int
    version: int  # counts acts
    read_ledger: int | None
    read_entry: int | None
    consumers: int | None
    unacked_messages: int | None
    replay_entries: int | None
    message_rate_out: float | None  # per second, here and below
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    problems: dict[str, int] | None  # what went wrong, in words, and how often
    state: int | None
    state_since_ms: int | None
    drain_s: int | None  # while it is draining: seconds left, as of updated_ms
    message_rate_in: float | None  # of the topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One connected consumer."""

    key: int
    name: str
    subscription_type: str
    address: str
    client_version: str
    face: str
    priority: int
    connected_ms: int
    permits: int
    unacked_messages: int
    blocked: bool  # on unacked messages
    writable: bool
    messages_out: int
    bytes_out: int
    messages_acked: int
    messages_redelivered: int
    last_flow_ms: int  # 0 = never, here and below
    last_delivery_ms: int
    last_ack_ms: int
    updated_ms: int
    properties: dict[str, str]  # the client's own


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """One delivery that waits for an ack."""

    delivery_id: int
    consumer_key: int
    consumer_name: str
    ledger_id: int
    first_entry: int
    last_entry: int
    messages: int
    delivered_ms: int
    redelivery_count: int
    deadline_ms: int | None  # None = the client keeps the time

    @property
    def place(self) -> str:
        """Return ledger:entry of its first entry."""
        return f"{self.ledger_id}:{self.first_entry}"


def subscription_head(topic: str, subscription: str) -> SubscriptionHead | None:
    """Find a subscription by its full topic name and its name. One query."""
    return fetch_one(SubscriptionHead, "subscription", "head", {"topic": topic, "subscription": subscription})


def consumers(subscription_id: int) -> list[ConsumerRow]:
    """Return at most 500 consumers, by priority and name. One query."""
    return fetch(
        ConsumerRow,
        "subscription",
        "consumers",
        {"subscription_id": subscription_id, "limit": CONSUMERS_SHOWN},
    )


def pending(subscription_id: int, limit: int) -> list[PendingRow]:
    """Return the first `limit` deliveries by position. One query."""
    return fetch(PendingRow, "subscription", "pending", {"subscription_id": subscription_id, "limit": limit})
