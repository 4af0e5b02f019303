"""Acts in PostgreSQL: the owner's side, asynchronous. The asking side is in act_requests.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.core.cursor_state import CursorState
from broker.storage.chunk_codec import decode_snapshot, encode_ack_sets, encode_snapshot
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "UndoSource",
    "WaitingAct",
    "apply_to_cursor",
    "finish",
    "latest_applied",
    "record_client_act",
    "undo_source",
    "waiting",
    "wake_requester",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAct:
    """A request that nobody has answered yet."""

    act_id: int
    kind: str
    is_apply: bool  # else a plan is asked for
    topic_id: int | None
    subscription_id: int | None
    topic_name: str
    subscription_name: str
    parameters: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    cursor_version: int | None  # the plan holds for this version of the cursor only
    undo_of: int | None
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSource:
    """What an undo starts from."""

    act_id: int
    kind: str
    state: str
    subscription_id: int | None
    before: CursorState | None
    result: Mapping[str, Any]
    is_open: bool  # the undo window has not ended


async def waiting(connection: Connection) -> list[WaitingAct]:
    """Requests in the order they came, at most 100."""
    cursor = await connection.execute(query("acts", "waiting"))
    return [
        WaitingAct(
            act_id=row[0],
            kind=row[1],
            is_apply=row[2] == "apply_requested",
            topic_id=row[3],
            subscription_id=row[4],
            topic_name=row[5],
            subscription_name=row[6],
            parameters=row[7],
            plan=row[8],
            cursor_version=row[9],
            undo_of=row[10],
            waited_s=row[11],
        )
        for row in await cursor.fetchall()
    ]


async def finish(
    connection: Connection,
    *,
    act_id: int,
    state: str,
    plan: str | None = None,
    result: str | None = None,
    error: str = "",
    cursor_version: int | None = None,
) -> None:
    """Answer a request that changes no cursor: a plan, a refusal. JSON texts. Repeating it does no harm."""
    await connection.execute(
        query("acts", "finish"),
        {
            "id": act_id,
            "state": state,
            "plan": plan,
            "result": result,
            "error": error,
            "cursor_version": cursor_version,
        },
    )


async def wake_requester(connection: Connection, act_id: int) -> None:
    """Tell whoever waits for this act."""
    await connection.execute(query("acts", "wake_requester"), (act_id,))


async def apply_to_cursor(
    connection: Connection,
    *,
    topic_id: int,
    owner_epoch: int,
    subscription_id: int,
    state: CursorState,
    before: CursorState,
    act_id: int,
    result: str,
    undo_window_s: int,
) -> bool:
    """Store a cursor's whole new state with the act's result; False when the topic is fenced. Safe to repeat."""
    cursor = await connection.execute(
        query("acts", "apply_to_cursor"),
        {
            "topic_id": topic_id,
            "owner_epoch": owner_epoch,
            "subscription_id": subscription_id,
            "mark_delete_ledger": state.mark_delete.ledger_id,
            "mark_delete_entry": state.mark_delete.entry_id,
            "acked_messages": state.acked_messages,
            "acked_entries": state.acked_entries,
            "acked_bytes": state.acked_bytes,
            "version": state.version,
            "kept_ledgers": [chunk.ledger_id for chunk in state.chunks],
            "kept_chunks": [chunk.chunk for chunk in state.chunks],
            "bits": [chunk.bits for chunk in state.chunks],
            "ack_sets": [encode_ack_sets(chunk.ack_sets) for chunk in state.chunks],
            "act_id": act_id,
            "result": result,
            "cursor_before": encode_snapshot(before),
            "undo_window_s": undo_window_s,
        },
    )
    return await cursor.fetchone() is not None


async def record_client_act(
    connection: Connection,
    *,
    kind: str,
    topic_id: int,
    subscription_id: int,
    topic_name: str,
    subscription_name: str,
    parameters: str,
    who: str,
    origin: str,
    cursor_version: int,
) -> int | None:
    """Open the act of a client's own command; the move that follows fills in its result."""
    cursor = await connection.execute(
        query("acts", "record_client_act"),
        {
            "kind": kind,
            "topic_id": topic_id,
            "subscription_id": subscription_id,
            "topic_name": topic_name,
            "subscription_name": subscription_name,
            "parameters": parameters,
            "who": who,
            "origin": origin,
            "cursor_version": cursor_version,
        },
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def undo_source(connection: Connection, act_id: int) -> UndoSource | None:
    """The act to undo, None when there is none of that id."""
    cursor = await connection.execute(query("acts", "undo_source"), (act_id,))
    row = await cursor.fetchone()
    if row is None:
        return None
    return UndoSource(
        act_id=row[0],
        kind=row[1],
        state=row[2],
        subscription_id=row[3],
        before=None if row[4] is None else decode_snapshot(bytes(row[4])),
        result=row[5] or {},
        is_open=bool(row[6]),
    )


async def latest_applied(connection: Connection, subscription_id: int) -> int | None:
    """The newest act that moved this cursor."""
    cursor = await connection.execute(query("acts", "latest_applied"), (subscription_id,))
    row = await cursor.fetchone()
    return None if row is None or row[0] is None else int(row[0])
