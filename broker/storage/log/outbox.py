"""The broker's queries on the outbox table. Django code stores messages in the table, in its own transactions.

The broker moves the messages into topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["OutboxRow", "refuse", "topics", "waiting"]


class OutboxRow(NamedTuple):
    """One message of a committed transaction."""

    row_id: int
    key_hash: int | None
    deliver_at_ms: int  # 0 means at once
    data: bytes  # The entry, ready for the log


async def topics(connection: Connection) -> list[str]:
    """Return the name of each topic in the outbox, exactly as stored."""
    cursor = await connection.execute(query("outbox", "topics"))
    return [name for (name,) in await cursor.fetchall()]


async def waiting(
    connection: Connection, topic: str, *, taken: Sequence[int], most: int, more_bytes: int
) -> list[OutboxRow]:
    """Return a topic's oldest rows, except rows in `taken` and rows that `refuse` has postponed.

    The list ends early if its data reaches the limit `more_bytes`. Safe to repeat and to cancel.
    """
    cursor = await connection.execute(
        query("outbox", "waiting"),
        {"topic": topic, "taken": list(taken), "most": most, "more_bytes": more_bytes},
    )
    return [OutboxRow(*row) for row in await cursor.fetchall()]


async def refuse(connection: Connection, row_ids: Sequence[int], *, error: str, retry_s: float) -> None:
    """Store why these rows cannot be moved. For the next `retry_s` seconds, `waiting` omits these rows."""
    await connection.execute(
        query("outbox", "refuse"), {"ids": list(row_ids), "error": error, "retry_s": retry_s}
    )
