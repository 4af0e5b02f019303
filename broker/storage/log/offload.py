"""Database rows about the files of offloaded ledgers."""

from __future__ import annotations

from dataclasses import dataclass

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["WrittenFile", "abandon", "attach", "doomed", "forget", "refuse", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that a job has written and checked."""

    name: str
    topic_id: int
    topic_name: str
    ledger_id: int
    entries: int
    messages: int
    size_bytes: int
    checksum: str


async def waiting(connection: Connection, *, limit: int) -> list[WrittenFile]:
    """Return at most `limit` files that wait to be attached, oldest first."""
    cursor = await connection.execute(query("offload", "waiting"), {"limit": limit})
    return [
        WrittenFile(
            name=row[0],
            topic_id=row[1],
            topic_name=row[2],
            ledger_id=row[3],
            entries=row[4],
            messages=row[5],
            size_bytes=row[6],
            checksum=row[7],
        )
        for row in await cursor.fetchall()
    ]


async def attach(connection: Connection, *, topic_id: int, owner_epoch: int, name: str) -> bool | None:
    """Let readers read a ledger from its file instead of from PostgreSQL. Safe to repeat.

    Return False if the ledger was trimmed or has another file, or if the file is to be deleted. Return None if
    `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("offload", "attach"), {"topic_id": topic_id, "owner_epoch": owner_epoch, "name": name}
    )
    row = await cursor.fetchone()
    return None if row is None else bool(row[0])


async def refuse(connection: Connection, name: str) -> None:
    """Mark a written file for deletion, unless it was attached. Safe to repeat."""
    await connection.execute(query("offload", "refuse"), (name,))


async def abandon(connection: Connection, *, stale_after_s: int) -> None:
    """Mark unneeded files for deletion. Safe to repeat."""
    await connection.execute(query("offload", "abandon_detached"))
    await connection.execute(query("offload", "abandon_stale"), {"after_s": stale_after_s})


async def doomed(connection: Connection, *, limit: int) -> list[str]:
    """Return the names of at most `limit` files to delete."""
    cursor = await connection.execute(query("offload", "doomed"), {"limit": limit})
    return [row[0] for row in await cursor.fetchall()]


async def forget(connection: Connection, name: str) -> None:
    """Delete the row of a deleted file. Safe to repeat."""
    await connection.execute(query("offload", "forget"), (name,))
