"""Store acts that affect several partitions.

An act is a recorded change. An act on several partitions has one row for the whole change, and one row for each
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["RecordedPart", "finish_whole", "parts_of", "record_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """One partition's part of an act. `plan` and `result` are JSON."""

    topic: str
    plan: str
    result: str
    cursor_version: int | None
    undo_of: int | None


async def record_parts(
    connection: Connection, *, act_id: int, parts: Sequence[RecordedPart]
) -> dict[str, int]:
    """Insert the parts of an act. Return the id of each part, keyed by topic name. Safe to repeat."""
    cursor = await connection.execute(
        query("acts", "record_parts"),
        {
            "act_id": act_id,
            "topics": [part.topic for part in parts],
            "plans": [part.plan for part in parts],
            "results": [part.result for part in parts],
            "cursor_versions": [part.cursor_version for part in parts],
            "undo_of": [part.undo_of for part in parts],
        },
    )
    return {row[0]: int(row[1]) for row in await cursor.fetchall()}


async def finish_whole(
    connection: Connection,
    *,
    act_id: int,
    result: str,
    undo_window_s: int = 0,
    error: str = "",
    error_code: str = "",
) -> None:
    """Finish an act on several partitions. If `error` is not empty, the act has failed. Safe to repeat."""
    await connection.execute(
        query("acts", "finish_whole"),
        {
            "act_id": act_id,
            "state": "failed" if error else "applied",
            "result": result,
            "error": error,
            "error_code": error_code,
            "undo_window_s": undo_window_s,
        },
    )


async def parts_of(connection: Connection, act_id: int) -> dict[str, int]:
    """Return the ids of an act's applied parts, keyed by topic name. The oldest part comes first."""
    cursor = await connection.execute(query("acts", "parts"), (act_id,))
    return {row[1]: int(row[0]) for row in await cursor.fetchall()}
