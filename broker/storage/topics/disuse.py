"""Find stored topics that may be unused or may have unused subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.policies import Policies
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["idle_topics"]


async def idle_topics(
    connection: Connection, *, after: int, known: Sequence[int], now_ms: int, defaults: Policies, limit: int
) -> list[tuple[int, str]]:
    """Return the id and full name of topics that may be inactive or may have expired subscriptions.

    The topics are sorted by id. Topics with ids up to `after`, and topics whose ids are in `known`, are left out.
    """
    cursor = await connection.execute(
        query("disuse", "idle_topics"),
        {
            "after": after,
            "known": list(known),
            "now_ms": now_ms,
            "inactive_topic_ms": defaults.inactive_topic_ms,
            "mode": defaults.inactive_topic_mode,
            "limit": limit,
        },
    )
    return [(row[0], row[1]) for row in await cursor.fetchall()]
