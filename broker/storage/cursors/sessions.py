"""Store the console's data about clients, topics and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.core.subscription.standing import SubscriptionState
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "ConsumerRow",
    "ProducerRow",
    "SubscriptionSummaryRow",
    "TopicSummaryRow",
    "delete_sessions",
    "forget_all",
    "judge_unloaded",
    "notify_pages",
    "upsert_consumers",
    "upsert_producers",
    "upsert_subscription_summaries",
    "upsert_topic_summaries",
]


class ConsumerRow(NamedTuple):
    """Columns of vela_consumer_session, in order."""

    key: int
    owner_epoch: int
    topic_id: int
    subscription_id: int | None
    subscription_name: str
    subscription_type: str
    name: str
    address: str
    client_version: str
    face: str
    priority: int
    connected_ms: int
    permits: int
    unacked_messages: int
    blocked: bool
    writable: bool
    messages_out: int
    bytes_out: int
    messages_acked: int
    messages_redelivered: int
    message_rate_out: float
    message_rate_acked: float
    message_rate_redelivered: float
    last_flow_ms: int
    last_delivery_ms: int
    last_ack_ms: int
    oldest_delivered_ms: int
    updated_ms: int
    properties: str  # JSON object
    protocol_version: int


class ProducerRow(NamedTuple):
    """Columns of vela_producer_session, in order."""

    key: int
    owner_epoch: int
    topic_id: int
    name: str
    address: str
    client_version: str
    face: str
    connected_ms: int
    messages_in: int
    bytes_in: int
    message_rate_in: float
    byte_rate_in: float
    last_sequence_id: int
    last_send_ms: int
    updated_ms: int
    properties: str  # JSON object
    protocol_version: int
    access_mode: str
    deduplicated: bool
    last_error: str


class TopicSummaryRow(NamedTuple):
    """Columns of vela_topic_summary, in order."""

    topic_id: int
    messages_in: int
    bytes_in: int
    stored_bytes: int
    producers: int
    message_rate_in: float
    byte_rate_in: float
    last_append_ms: int
    max_backlog_messages: int
    subscriptions: int
    worst_subscription: str
    message_rate_acked: float
    last_used_ms: int
    updated_ms: int
    state: int | None
    state_since_ms: int  # Stored only if the state has changed


class SubscriptionSummaryRow(NamedTuple):
    """Columns of vela_subscription_summary, in order."""

    subscription_id: int
    acked_messages: int
    acked_bytes: int
    read_ledger: int
    read_entry: int
    consumers: int
    unacked_messages: int
    replay_entries: int
    message_rate_out: float
    message_rate_acked: float
    messages_redelivered: int
    last_used_ms: int
    updated_ms: int
    problems: str  # JSON object that maps each problem to its count
    state: int
    state_since_ms: int  # Stored only if the state has changed
    drain_s: int | None


async def _upsert(connection: Connection, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        await connection.execute(query("sessions", name), columns)


async def upsert_consumers(connection: Connection, rows: Sequence[ConsumerRow]) -> None:
    """Store these rows."""
    await _upsert(connection, "upsert_consumers", rows)


async def upsert_producers(connection: Connection, rows: Sequence[ProducerRow]) -> None:
    """Store these rows."""
    await _upsert(connection, "upsert_producers", rows)


async def upsert_topic_summaries(connection: Connection, rows: Sequence[TopicSummaryRow]) -> None:
    """Store these rows, except those of deleted topics."""
    await _upsert(connection, "upsert_topic_summaries", rows)


async def upsert_subscription_summaries(
    connection: Connection, rows: Sequence[SubscriptionSummaryRow]
) -> None:
    """Store these rows, except those of deleted subscriptions."""
    await _upsert(connection, "upsert_subscription_summaries", rows)


async def delete_sessions(
    connection: Connection, *, consumers: Sequence[int], producers: Sequence[int]
) -> None:
    """Delete the sessions with these keys."""
    await connection.execute(query("sessions", "delete_consumers"), (list(consumers),))
    await connection.execute(query("sessions", "delete_producers"), (list(producers),))


async def forget_all(connection: Connection, now_ms: int) -> None:
    """Delete all sessions. Store `now_ms` as the time when their subscriptions and topics were last used."""
    await connection.execute(query("sessions", "forget_all"), {"now_ms": now_ms})


async def judge_unloaded(connection: Connection, *, before_ms: int, now_ms: int, limit: int) -> int:
    """Mark subscriptions as stuck or idle if their last report is older than `before_ms`.

    Also updates the states of topics. Call this function again until it returns less than `limit`.
    """
    lasting = (SubscriptionState.STUCK, SubscriptionState.PAUSED, SubscriptionState.IDLE)
    values = {
        "before_ms": before_ms,
        "now_ms": now_ms,
        "limit": limit,
        "passing": [state.value for state in SubscriptionState if state not in lasting],
        "stuck": SubscriptionState.STUCK.value,
        "idle": SubscriptionState.IDLE.value,
    }
    judged = 0
    for name in ("judge_unloaded", "judge_unloaded_topics"):
        judged = max(judged, (await connection.execute(query("sessions", name), values)).rowcount)
        if judged >= limit:
            break
    return judged


async def notify_pages(connection: Connection, payloads: Sequence[str]) -> None:
    """Notify the console's open pages.

    Each payload is a JSON list of keys such as "topic:7". PostgreSQL accepts payloads of less than 8,000 bytes.
    """
    for payload in payloads:
        await connection.execute(query("sessions", "notify_pages"), (payload,))
