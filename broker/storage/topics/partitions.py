"""Partitioned topics in PostgreSQL: add partitions and read statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.core.topic_name import TopicName
from broker.storage.connection import Connection
from broker.storage.queries import query
from broker.storage.topics.topics import insert_partitions

__all__ = ["Growth", "grow", "statistics", "subscription_names", "subscription_statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The result of adding partitions to a topic."""

    before: int
    after: int  # Equal to `before` if no partition was added
    subscriptions: tuple[str, ...] = ()  # Subscriptions of the new partitions
    # Names that the new partitions need but other topics already have. If there are any, no partition was added.
    taken: tuple[str, ...] = ()


async def grow(connection: Connection, name: TopicName, partitions: int) -> Growth | None:
    """Add partitions to a topic until it has this number of partitions. Safe to repeat.

    A topic that is not partitioned does not change. Return None if the topic does not exist. Raises InvalidTopicName
    if the name of a new partition is too long.
    """
    async with connection.transaction():
        cursor = await connection.execute(query("partitions", "lock_parent"), (name.full,))
        row = await cursor.fetchone()
        if row is None:
            return None
        parent_id, before = row
        if before == 0 or before >= partitions:
            return Growth(before=before, after=before)
        added = range(before, partitions)
        cursor = await connection.execute(
            query("partitions", "taken_names"), ([f"{name.full}-partition-{index}" for index in added],)
        )
        taken = tuple(each for (each,) in await cursor.fetchall())
        if taken:
            return Growth(before=before, after=before, taken=taken)
        await insert_partitions(connection, name, added)
        cursor = await connection.execute(
            query("partitions", "copy_subscriptions"), {"parent_id": parent_id, "before": before}
        )
        subscriptions = tuple(each for (each,) in await cursor.fetchall())
        await connection.execute(
            query("partitions", "set_partitions"), {"id": parent_id, "partitions": partitions}
        )
    return Growth(before=before, after=partitions, subscriptions=subscriptions)


async def subscription_names(connection: Connection, name: str) -> list[str]:
    """Return the sorted names of all subscriptions of a topic's partitions."""
    cursor = await connection.execute(query("partitions", "subscription_names"), (name,))
    return [each for (each,) in await cursor.fetchall()]


async def statistics(connection: Connection, name: str) -> Sequence[tuple[Any, ...]]:
    """Return a row for each partition, or for the topic itself if it is not partitioned.

    The query `statistics` in partitions.sql lists the columns.
    """
    cursor = await connection.execute(query("partitions", "statistics"), (name,))
    return await cursor.fetchall()


async def subscription_statistics(connection: Connection, name: str) -> Sequence[tuple[Any, ...]]:
    """Return a row for each subscription of each partition, or for each subscription of an unpartitioned topic.

    The query `subscription_statistics` in partitions.sql lists the columns.
    """
    cursor = await connection.execute(query("partitions", "subscription_statistics"), (name,))
    return await cursor.fetchall()
