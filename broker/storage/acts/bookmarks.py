"""Bookmarks, which are named positions in topics. Only the broker that owns a topic writes its bookmarks."""

from __future__ import annotations

from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["create", "delete", "find"]


async def find(connection: Connection, topic_id: int, name: str) -> Position | None:
    """Return the position of a bookmark, or None if the bookmark does not exist."""
    cursor = await connection.execute(query("bookmarks", "find"), (topic_id, name))
    row = await cursor.fetchone()
    return None if row is None else Position(row[0], row[1])


async def create(
    connection: Connection,
    *,
    topic_id: int,
    owner_epoch: int,
    name: str,
    position: Position,
    keep_ms: int,
    who: str,
) -> bool | None:
    """Store a bookmark, unless its name is taken. Return None if `owner_epoch` is out of date. Safe to repeat.

    `keep_ms` is how long the messages after the bookmark are kept. 0 means until the bookmark is deleted.
    """
    cursor = await connection.execute(
        query("bookmarks", "create"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "name": name,
            "ledger_id": position.ledger_id,
            "entry_id": position.entry_id,
            "keep_ms": keep_ms,
            "who": who,
        },
    )
    return True if await cursor.fetchone() is not None else None


async def delete(connection: Connection, *, topic_id: int, owner_epoch: int, name: str) -> bool | None:
    """Delete a bookmark. Return None if `owner_epoch` is out of date. Safe to repeat."""
    cursor = await connection.execute(
        query("bookmarks", "delete"), {"topic_id": topic_id, "owner_epoch": owner_epoch, "name": name}
    )
    return True if await cursor.fetchone() is not None else None
