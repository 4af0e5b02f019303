"""Names and details of topics and subscriptions in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "LastCompaction",
    "LastOffload",
    "OffloadRun",
    "TopicDetails",
    "details",
    "last_compaction",
    "last_offload",
    "last_offload_run",
    "properties_of",
    "set_subscription_properties",
    "subscription_properties",
    "subscriptions_of",
    "topics_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """Details of a stored topic."""

    partitions: int  # 0 means not partitioned
    properties: Mapping[str, str]
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCompaction:
    """The state of a topic's compaction.

    `removed_messages` and `duration_ms` describe the last successful run.
    """

    state: str  # RUNNING, SUCCESS or ERROR
    last_error: str
    removed_messages: int
    duration_ms: int
    succeeded_ms: int  # 0 means never
    failed_ms: int  # 0 means never


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOffload:
    """The times of a topic's last successful and last failed offload."""

    succeeded_ms: int  # 0 means never
    failed_ms: int  # 0 means never


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadRun:
    """A run of the offload job, which writes ledgers to files."""

    state: str  # One of: waiting, running, done, failed, cancelled
    error: str


async def topics_of(
    connection: Connection, tenant: str, namespace: str, *, domain: str, partitioned: bool
) -> list[str]:
    """Return the sorted full names of a namespace's topics.

    If `partitioned` is True, return only partitioned topics. Otherwise return only partitions and unpartitioned topics.
    """
    cursor = await connection.execute(
        query("catalogue", "topics_of"),
        {"tenant": tenant, "namespace": namespace, "domain": domain, "partitioned": partitioned},
    )
    return [row[0] for row in await cursor.fetchall()]


async def details(connection: Connection, name: str) -> TopicDetails | None:
    """Return the details of a topic."""
    cursor = await connection.execute(query("catalogue", "details"), (name,))
    row = await cursor.fetchone()
    return None if row is None else TopicDetails(partitions=row[0], properties=row[1], created_ms=row[2])


async def subscriptions_of(connection: Connection, name: str) -> list[str]:
    """Return the sorted names of the durable subscriptions of a topic and all its partitions."""
    cursor = await connection.execute(query("catalogue", "subscriptions_of"), (name,))
    return [row[0] for row in await cursor.fetchall()]


async def subscription_properties(connection: Connection, topic_id: int) -> dict[str, Mapping[str, str]]:
    """Return the properties of a topic's subscriptions, by subscription name.

    Subscriptions without properties are left out.
    """
    cursor = await connection.execute(query("catalogue", "subscription_properties"), (topic_id,))
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def last_compaction(connection: Connection, topic_id: int) -> LastCompaction | None:
    """Return the state of a topic's compaction, or None if no compaction has begun."""
    cursor = await connection.execute(query("catalogue", "compaction"), (topic_id,))
    row = await cursor.fetchone()
    if row is None:
        return None
    return LastCompaction(
        state=row[0],
        last_error=row[1],
        removed_messages=row[2],
        duration_ms=row[3],
        succeeded_ms=row[4] or 0,
        failed_ms=row[5] or 0,
    )


async def last_offload(connection: Connection, topic_id: int) -> LastOffload:
    """Return the times of a topic's last offloads."""
    cursor = await connection.execute(query("catalogue", "offload"), {"topic_id": topic_id})
    row = await cursor.fetchone() or (None, None)
    return LastOffload(succeeded_ms=row[0] or 0, failed_ms=row[1] or 0)


async def last_offload_run(connection: Connection, topic_id: int) -> OffloadRun | None:
    """Return the latest offload run of a topic."""
    row = await (await connection.execute(query("catalogue", "offload_run"), (topic_id,))).fetchone()
    return None if row is None else OffloadRun(state=row[0], error=row[1])


async def properties_of(connection: Connection, topic: str, subscription: str) -> Mapping[str, str]:
    """Return the properties of a subscription.

    For a partitioned topic, return the properties of the first partition that has any.
    """
    cursor = await connection.execute(query("catalogue", "properties_of"), (topic, subscription))
    row = await cursor.fetchone()
    return {} if row is None else row[0]


async def set_subscription_properties(
    connection: Connection, topic: str, subscription: str, properties: Mapping[str, str]
) -> None:
    """Replace the properties of a subscription on one topic or partition. Safe to repeat."""
    await connection.execute(
        query("catalogue", "set_subscription_properties"),
        {"topic": topic, "subscription": subscription, "properties": json.dumps(dict(properties))},
    )
