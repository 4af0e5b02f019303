"""Due times of delayed entries in PostgreSQL."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["due_after", "prune", "prune_trimmed", "waiting"]

_RUN_SHIFT = 15


async def waiting(connection: Connection, topic_id: int) -> list[tuple[int, Sequence[int]]]:
    """Return a topic's delayed entries, as pairs of a ledger id and entry ids."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(query("delayed", "waiting"), (topic_id,))
    found: list[tuple[int, Sequence[int]]] = []
    for ledger_id, run, slots in await cursor.fetchall():
        numbers = array("h", bytes(slots))
        if sys.byteorder == "little":
            numbers.byteswap()
        base = run << _RUN_SHIFT
        found.append((ledger_id, [base + number for number in numbers]))
    return found


async def due_after(
    connection: Connection, topic_id: int, *, after: tuple[int, int, int], most: int
) -> list[tuple[int, int, int]]:
    """Return a topic's rows that follow a given row, sorted. Each row is a due time, a ledger id and an entry id."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(query("delayed", "due_after"), (topic_id, *after, most))
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def prune(
    connection: Connection, *, topic_id: int, owner_epoch: int, due_through_ms: int
) -> bool | None:
    """Delete the rows with due times up to `due_through_ms`. Safe to repeat.

    Return None if `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("delayed", "prune"),
        {"topic_id": topic_id, "owner_epoch": owner_epoch, "due_through_ms": due_through_ms},
    )
    return await cursor.fetchone() is not None or None


async def prune_trimmed(
    connection: Connection, *, topic_id: int, owner_epoch: int, first_ledger: int
) -> bool | None:
    """Delete the rows of ledgers with ids below `first_ledger`. Safe to repeat.

    Return None if `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("delayed", "prune_trimmed"),
        {"topic_id": topic_id, "owner_epoch": owner_epoch, "first_ledger": first_ledger},
    )
    return await cursor.fetchone() is not None or None
