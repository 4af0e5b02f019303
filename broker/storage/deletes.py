"""Deletes of a row and of all rows that refer to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import psycopg

from broker.storage.connection import Connection

__all__ = ["delete_with_references"]

_ATTEMPTS: Final = 5


async def delete_with_references(
    connection: Connection, statement: bytes, parameters: Mapping[str, object]
) -> tuple[Any, ...] | None:
    """Run a delete and return the first row of its answer. Safe to repeat.

    Repeats the statement if a summary or an act that refers to a deleted row was inserted while the statement ran: the
    next try covers the inserted row too. Raises psycopg.errors.ForeignKeyViolation if this happens five times in a row.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await (await connection.execute(statement, parameters)).fetchone()
        except psycopg.errors.ForeignKeyViolation:
            continue
    return await (await connection.execute(statement, parameters)).fetchone()
