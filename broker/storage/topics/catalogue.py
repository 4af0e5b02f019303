"""Names of topics in PostgreSQL, as the admin API lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["TopicDetails", "details", "subscriptions_of", "topics_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """What is stored about a topic besides its log."""

    partitions: int  # 0 = not partitioned
    properties: Mapping[str, str]
    created_ms: int  # Unix time


async def topics_of(
    connection: Connection, tenant: str, namespace: str, *, domain: str, partitioned: bool
) -> list[str]:
    """Return full names, sorted: the partitioned parents, or else the topics and partitions that have messages."""
    cursor = await connection.execute(
        query("catalogue", "topics_of"),
        {"tenant": tenant, "namespace": namespace, "domain": domain, "partitioned": partitioned},
    )
    return [row[0] for row in await cursor.fetchall()]


async def details(connection: Connection, name: str) -> TopicDetails | None:
    """Return the details of a topic, or None if it does not exist."""
    cursor = await connection.execute(query("catalogue", "details"), (name,))
    row = await cursor.fetchone()
    return None if row is None else TopicDetails(partitions=row[0], properties=row[1], created_ms=row[2])


async def subscriptions_of(connection: Connection, name: str) -> list[str]:
    """Return the names of the durable subscriptions of a topic, or of any of its partitions."""
    cursor = await connection.execute(query("catalogue", "subscriptions_of"), (name,))
    return [row[0] for row in await cursor.fetchall()]
