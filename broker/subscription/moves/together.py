"""Move the cursors of several partitions in one transaction.

An act is a change that the broker records.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from broker.core.errors import PersistenceFailed, TopicFenced
from broker.storage.acts import parts as store
from broker.storage.pool import first_line

if TYPE_CHECKING:
    from broker.core.cursor.state import AckOverlay
    from broker.core.position import Position
    from broker.storage.acts.parts import RecordedPart
    from broker.storage.connection import Connection
    from broker.subscription.moves.cursor_move import CursorMove
    from broker.subscription.moves.staged import StagedMove

__all__ = ["MovePart", "MovedPart", "commit_together"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePart:
    """The change that an act makes to the cursor of one partition."""

    moves: CursorMove
    change: Callable[[], None]
    begins_at: Position | None
    record: Callable[[], RecordedPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPart:
    """The stored part of an act for one partition."""

    act_id: int  # Id of this part; the whole act has another id
    recorded: AckOverlay


async def commit_together(
    parts: Sequence[MovePart],
    *,
    act_id: int,
    undo_window_s: int,
    result: Callable[[], Mapping[str, object]],
) -> list[MovedPart]:
    """Move the cursors, and store everything in one transaction.

    Call this inside `moves.moving` of every part. Raises TopicFenced if another broker has taken over a topic, and
    PersistenceFailed if the database refuses the moves. After an error, all cursors are where they were before, or all
    their topics are closed because the moves may have been stored.

    Do not cancel a call. Cancelling closes the topics of all changed cursors.
    """
    storing = parts[0].moves.storing
    async with storing.flusher.paused():
        staged: list[StagedMove] = []
        try:
            for part in parts:
                moved = await part.moves.stage(part.change, part.begins_at)
                staged.append(moved)
            acts = await storing.epochs.write_together(
                [each.log for each in staged],
                _transaction(
                    [part.record() for part in parts],
                    staged,
                    act_id=act_id,
                    undo_window_s=undo_window_s,
                    result=json.dumps(dict(result())),
                ),
                what="moving the cursors of several partitions",
            )
            if acts is None:
                raise TopicFenced("a partition moved to another broker")
        except asyncio.CancelledError:
            for each in staged:
                each.abandon()
            raise
        except Exception as error:
            for each in staged:
                each.take_back()
            if isinstance(error, psycopg.Error):
                text = f"the database refused the moves: {first_line(error)}"
                raise PersistenceFailed(text) from error
            raise
    return [
        MovedPart(act_id=acts[each.log.name.full], recorded=part.moves.stored(each))
        for part, each in zip(parts, staged, strict=True)
    ]


def _transaction(
    parts: Sequence[RecordedPart],
    staged: Sequence[StagedMove],
    *,
    act_id: int,
    undo_window_s: int,
    result: str,
) -> Callable[[Connection], Awaitable[dict[str, int]]]:
    async def store_moves(connection: Connection) -> dict[str, int]:
        acts = await store.record_parts(connection, act_id=act_id, parts=parts)
        for part, each in zip(parts, staged, strict=True):
            is_stored = await each.store(
                connection,
                each.log.owner_epoch,
                act_id=acts[part.topic],
                result=part.result,
                undo_window_s=undo_window_s,
            )
            if not is_stored:
                raise TopicFenced(f"{part.topic} moved to another broker")
        await store.finish_whole(connection, act_id=act_id, result=result, undo_window_s=undo_window_s)
        return acts

    return store_moves
