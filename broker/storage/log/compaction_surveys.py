"""Surveys in PostgreSQL. A Spark job makes a survey as the first pass of a compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.position import Position
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["LatestOfKey", "Survey", "abandon", "finish", "keys", "ready", "sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A search for the latest message of each key in a part of a topic's log."""

    survey_id: int
    topic_name: str | None  # None means the topic was deleted
    generation: int  # Generation of the topic's previous compaction, or 0 if there was none
    begin: Position  # Exclusive
    horizon: Position  # Inclusive


class LatestOfKey(NamedTuple):
    """The latest message of a key."""

    position: Position
    batch_index: int
    is_deleted: bool


async def ready(connection: Connection, *, limit: int) -> list[Survey]:
    """Return at most `limit` surveys that wait for the second pass, oldest first."""
    cursor = await connection.execute(query("compaction_surveys", "ready"), {"limit": limit})
    return [
        Survey(
            survey_id=row[0],
            topic_name=row[1],
            generation=row[2],
            begin=Position(row[3], row[4]),
            horizon=Position(row[5], row[6]),
        )
        for row in await cursor.fetchall()
    ]


async def keys(connection: Connection, survey_id: int, wanted: Sequence[bytes]) -> dict[bytes, LatestOfKey]:
    """Return the latest message of each key. `wanted` has the MD5 sums of the keys."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(query("compaction_surveys", "keys"), (survey_id, list(wanted)))
    return {
        bytes(row[0]): LatestOfKey(Position(row[1], row[2]), row[3], row[4])
        for row in await cursor.fetchall()
    }


async def finish(
    connection: Connection,
    survey_id: int,
    *,
    state: str,
    error: str = "",
    kept_messages: int = 0,
    removed_messages: int = 0,
) -> None:
    """Set the state of a survey to `done` or `refused`. Safe to repeat."""
    await connection.execute(
        query("compaction_surveys", "finish"),
        {
            "survey_id": survey_id,
            "state": state,
            "error": error,
            "kept_messages": kept_messages,
            "removed_messages": removed_messages,
        },
    )


async def abandon(connection: Connection) -> None:
    """Refuse surveys whose job ended before it had read the topic. Safe to repeat.

    Also refuse a survey that a job is still making, if the topic was compacted meanwhile or the survey is older than a
    day.
    """
    await connection.execute(query("compaction_surveys", "abandon"))


async def sweep(connection: Connection, *, limit: int) -> int:
    """Delete at most `limit` keys of ended surveys, and return the number of deleted keys.

    If no such keys are left, delete the ended surveys that are older than a week.
    """
    cursor = await connection.execute(query("compaction_surveys", "sweep"), {"limit": limit})
    if not cursor.rowcount:
        await connection.execute(query("compaction_surveys", "forget"))
    return cursor.rowcount
