"""Terminate and delete topics in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.storage.connection import Connection
from broker.storage.deletes import delete_with_references
from broker.storage.queries import query

__all__ = ["delete", "members", "stored_bytes", "subscription_names", "terminate"]


async def terminate(connection: Connection, *, topic_id: int, owner_epoch: int) -> bool | None:
    """Record that a topic is terminated. Return None if the topic has another owner now. Safe to repeat.

    Call this while no append is in flight.
    """
    cursor = await connection.execute(
        query("topic_life", "terminate"), {"topic_id": topic_id, "owner_epoch": owner_epoch}
    )
    return True if await cursor.fetchone() is not None else None


async def members(connection: Connection, name: str) -> dict[int, str]:
    """Return the id and full name of a topic, or of every partition of a partitioned topic."""
    cursor = await connection.execute(query("topic_life", "members"), (name,))
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def subscription_names(connection: Connection, topic_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Return the topic and name of every durable subscription of these topics."""
    cursor = await connection.execute(query("topic_life", "subscriptions"), (list(topic_ids),))
    return [(row[0], row[1]) for row in await cursor.fetchall()]


async def stored_bytes(connection: Connection, topic_ids: Sequence[int]) -> int:
    """Return the total stored bytes of these topics, from the broker's last report."""
    cursor = await connection.execute(query("topic_life", "stored_bytes"), (list(topic_ids),))
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


async def delete(connection: Connection, epochs: Mapping[int, int], *, parent_id: int | None) -> bool:
    """Delete these topics and their partitioned parent. Safe to repeat.

    `epochs` maps topic ids to owner epochs. Delete nothing and return False if a topic has another owner now, if the
    parent has other partitions, or if the topics do not exist.
    """
    parameters = {
        "topic_ids": list(epochs.keys()),
        "owner_epochs": list(epochs.values()),
        "parent_id": parent_id,
    }
    row = await delete_with_references(connection, query("topic_life", "delete"), parameters)
    return row is not None and row[0] > 0
