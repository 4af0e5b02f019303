"""Delete a row to which other sessions may add references."""

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
    """Run a delete and return the first row of its answer.

    The statement must also handle the rows that refer to the deleted row. If another session inserts such a row
    meanwhile, the statement is repeated. Raises psycopg.errors.ForeignKeyViolation after five attempts.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await (await connection.execute(statement, parameters)).fetchone()
        except psycopg.errors.ForeignKeyViolation:
            continue
    return await (await connection.execute(statement, parameters)).fetchone()
