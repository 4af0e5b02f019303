"""Rows of delivery stories: the broker appends them, and Celery removes old ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from broker.core.subscription.story_rows import StoryRow
from broker.storage.connection import Connection
from broker.storage.queries import query
from broker.storage.task_connection import task_connection

__all__ = ["ROWS_AT_ONCE", "add_rows", "expire", "new_ids"]

ROWS_AT_ONCE: Final = 1_000  # binding them takes about 3 ms, during which the broker serves no client
_EXPIRED_AT_ONCE: Final = 10_000  # the most rows that one statement removes


async def new_ids(connection: Connection, number: int) -> list[int]:
    """Return ids for new rows, ascending."""
    cursor = await connection.execute(query("stories", "new_ids"), (number,))
    return [row[0] for row in await cursor.fetchall()]


async def add_rows(connection: Connection, ids: Sequence[int], rows: Sequence[StoryRow]) -> None:
    """Store these rows with these ids. Pass at most ROWS_AT_ONCE. Safe to repeat with the same ids."""
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
    """Remove expired rows, and the oldest rows beyond about `most_rows`. Return how many were removed.

    Stops soon after `budget_s`, even if rows are left. Synchronous, because Celery calls it. Each statement is a
    separate transaction. Safe to repeat.
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
