"""Delete a row while other sessions may add references to it."""

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
    """Run a DELETE statement and return the first row of its result.

    The statement must also delete or change the rows that refer to the deleted row. If another session adds a reference
    meanwhile, this function repeats the statement. Raises psycopg.errors.ForeignKeyViolation if five attempts fail.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await (await connection.execute(statement, parameters)).fetchone()
        except psycopg.errors.ForeignKeyViolation:
            continue
    return await (await connection.execute(statement, parameters)).fetchone()
