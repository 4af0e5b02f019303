"""Rows of delivery stories, which tell what happened to the entries of a subscription."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from broker.core.subscription.story_rows import StoryRow
from broker.storage.connection import Connection
from broker.storage.queries import query
from broker.storage.task_connection import task_connection

__all__ = ["ROWS_AT_ONCE", "add_rows", "expire", "new_ids"]

ROWS_AT_ONCE: Final = 1_000  # Preparing 1,000 rows blocks the broker for 3 ms
_EXPIRED_AT_ONCE: Final = 10_000


async def new_ids(connection: Connection, number: int) -> list[int]:
    """Return ascending ids for new rows."""
    cursor = await connection.execute(query("stories", "new_ids"), (number,))
    return [row[0] for row in await cursor.fetchall()]


async def add_rows(connection: Connection, ids: Sequence[int], rows: Sequence[StoryRow]) -> None:
    """Store at most ROWS_AT_ONCE rows. Safe to repeat with the same ids."""
    await connection.execute(
        query("stories", "add"),
        (
            list(ids),
            [each.subscription_id for each in rows],
            [int(each.event) for each in rows],
            [each.ledger_id for each in rows],
            [each.first_entry for each in rows],
            [each.last_entry for each in rows],
            [each.at_ms for each in rows],
            [each.until_ms for each in rows],
            [each.events for each in rows],
            [each.redelivery_count for each in rows],
            [each.consumer_name for each in rows],
            [each.consumer_address for each in rows],
            [each.detail for each in rows],
            [each.expires_ms for each in rows],
        ),
    )


def expire(now_ms: int, *, most_rows: int, budget_s: float) -> int:
    """Remove expired rows, and then the oldest rows beyond the limit `most_rows`. Return how many were removed.

    Stops soon after `budget_s` seconds. Safe to repeat.
    """
    ends_s = time.monotonic() + budget_s
    gone = 0
    with task_connection("vela task") as connection:
        for name, limits in (("expire", {"now_ms": now_ms}), ("remove_beyond", {"most_rows": most_rows})):
            while True:
                removed = connection.execute(
                    query("stories", name), {**limits, "limit": _EXPIRED_AT_ONCE}
                ).rowcount
                gone += removed
                if removed < _EXPIRED_AT_ONCE or time.monotonic() >= ends_s:
                    break
    return gone
