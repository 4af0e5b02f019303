"""Store the long-poll pulls that are waiting for messages. The console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["ParkedRow", "delete", "forget_all", "upsert"]


class ParkedRow(NamedTuple):
    """Columns of vela_parked_pulls, in order."""

    topic_id: int
    pulls: int
    oldest: str  # JSON list of the oldest pulls
    updated_ms: int


async def upsert(connection: Connection, rows: Sequence[ParkedRow]) -> None:
    """Store these rows. Safe to repeat."""
    if rows:
        await connection.execute(
            query("parked", "upsert"), [list(column) for column in zip(*rows, strict=True)]
        )


async def delete(connection: Connection, topic_ids: Sequence[int]) -> None:
    """Delete the rows of these topics. Safe to repeat."""
    if topic_ids:
        await connection.execute(query("parked", "delete"), (list(topic_ids),))


async def forget_all(connection: Connection) -> None:
    """Delete all rows."""
    await connection.execute(query("parked", "forget_all"))
