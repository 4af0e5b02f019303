"""Finding topics that expiry by disuse may concern, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["idle_topics"]


async def idle_topics(
    connection: Connection, *, known: Sequence[int], now_ms: int, inactive_topic_ms: int, limit: int
) -> list[str]:
    """Full names of topics, none of `known` (ids), with something to expire, or whose use was never written down."""
    cursor = await connection.execute(
        query("disuse", "idle_topics"),
        {"known": list(known), "now_ms": now_ms, "inactive_topic_ms": inactive_topic_ms, "limit": limit},
    )
    return [row[0] for row in await cursor.fetchall()]
