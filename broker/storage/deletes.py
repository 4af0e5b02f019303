"""Delete a row and all rows that refer to it."""

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

    If a summary or an act that refers to a deleted row is inserted while the statement runs, the statement is repeated,
    and the next try also handles the inserted row. Raises psycopg.errors.ForeignKeyViolation if this happens five times
    in a row.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await (await connection.execute(statement, parameters)).fetchone()
        except psycopg.errors.ForeignKeyViolation:
            continue
    return await (await connection.execute(statement, parameters)).fetchone()
