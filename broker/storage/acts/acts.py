"""Read and change acts in PostgreSQL.

An act is a recorded change. If an act acks messages, its overlay stores later client acks of the same messages. An undo
of the act keeps these client acks.

This file is long because each SQL statement has a separate function with many named parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from broker.core.cursor.state import AckOverlay, CursorState
from broker.core.position import LATEST, Position
from broker.storage.connection import Connection
from broker.storage.cursors.chunk_codec import (
    decode_overlay,
    decode_snapshot,
    encode_ack_sets,
    encode_overlay,
    encode_snapshot,
)
from broker.storage.queries import query

__all__ = [
    "PEOPLE",
    "PLAN_REQUESTS",
    "SECOND_PERSON_S",
    "OpenUndo",
    "UndoSource",
    "WaitingAct",
    "apply_to_cursor",
    "begin",
    "end_client_acts",
    "finish",
    "inside_to_json",
    "latest_move",
    "needs_second_person",
    "open_undos",
    "outcome",
    "record_change",
    "record_client_act",
    "record_commit",
    "recorded_acks",
    "refuse",
    "replan",
    "report",
    "request_apply",
    "request_plan",
    "store_overlays",
    "undo_source",
    "unfinished",
    "waiting",
    "wake_requester",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAct:
    """An act whose request waits for an answer, or an unfinished long-running act (of a kind with `is_long`)."""

    act_id: int
    kind: str
    is_apply: bool  # False if the request asks for a plan
    topic_id: int | None
    subscription_id: int | None
    topic_name: str
    subscription_name: str
    parameters: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    cursor_version: int | None  # The plan is valid only for this version
    undo_of: int | None
    waited_s: float
    who: str
    progress: Mapping[str, Any] | None
    message: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSource:
    """The stored act that an undo reverses."""

    act_id: int
    kind: str
    state: str
    subscription_id: int | None
    before: CursorState | None
    result: Mapping[str, Any]
    is_open: bool
    acked_since: AckOverlay  # The broker may have newer acks in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUndo:
    """A cursor's latest move, which can still be undone."""

    subscription_id: int
    act_id: int
    until_ms: int  # Unix time
    acked_since: AckOverlay


PEOPLE: Final = ("console", "api")
"""The origin of a logged-in user's request begins with one of these words."""
SECOND_PERSON_S: Final = 24 * 3600
"""If a second person must apply a plan, the plan does not expire sooner than this."""

PLAN_REQUESTS: Final = {
    "subscription": "request_plan",
    "topic": "request_topic_plan",
    "namespace": "request_namespace_plan",
    "new namespace": "request_new_namespace_plan",
    "tenant": "request_new_namespace_plan",
}


async def request_plan(
    connection: Connection,
    *,
    kind: str,
    scope: str,
    topic: str,
    subscription: str,
    parameters: Mapping[str, object],
    message: bytes | None,
    who: str,
    origin: str,
    reason: str,
) -> int | None:
    """Request a plan and return the act's id, or None if the topic, subscription or namespace does not exist.

    `topic` is a full topic name, `tenant/namespace` or `tenant/*`. `message` is an encoded entry to publish.
    """
    cursor = await connection.execute(
        query("acts", PLAN_REQUESTS[scope]),
        {
            "kind": kind,
            "topic": topic,
            "subscription": subscription,
            "parameters": json.dumps(dict(parameters)),
            "message": message,
            "who": who,
            "origin": origin,
            "reason": reason,
            "undo_of": None,
        },
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def request_apply(
    connection: Connection,
    act_id: int,
    *,
    who: str,
    origin: str,
    reason: str,
    allowed_drift_messages: int | None,
) -> bool:
    """Request to apply a plan. Return False if the plan cannot be applied now."""
    cursor = await connection.execute(
        query("acts", "request_apply"),
        {
            "id": act_id,
            "who": who,
            "origin": origin,
            "reason": reason,
            "allowed_drift_messages": allowed_drift_messages,
            "people": list(PEOPLE),
        },
    )
    return await cursor.fetchone() is not None


async def needs_second_person(connection: Connection, act_id: int) -> bool:
    """Return whether a second person must apply this act."""
    row = await (await connection.execute(query("acts", "get"), (act_id,))).fetchone()
    return row is not None and bool(row[-1])


async def outcome(connection: Connection, act_id: int) -> tuple[str, str]:
    """Return the state and the error of an act. The state is "deleted" if the act does not exist."""
    row = await (await connection.execute(query("acts", "outcome"), (act_id,))).fetchone()
    return ("deleted", "") if row is None else (row[0], row[1])


async def refuse(
    connection: Connection, act_id: int, *, who: str, origin: str, error: str, error_code: str
) -> None:
    """Refuse a plan. Safe to repeat."""
    await connection.execute(
        query("acts", "refuse"),
        {"id": act_id, "who": who, "origin": origin, "error": error, "error_code": error_code},
    )


async def waiting(connection: Connection, *, most: int) -> list[WaitingAct]:
    """Return the oldest waiting requests. `most` limits their number."""
    return await _requests(connection, "waiting", most)


async def unfinished(connection: Connection) -> list[WaitingAct]:
    """Return the long-running acts that a broker began and did not finish."""
    return await _requests(connection, "unfinished")


async def end_client_acts(connection: Connection) -> None:
    """End the acts of client commands, evictions and expiries that an earlier broker left unfinished.

    Safe to repeat.
    """
    await connection.execute(query("acts", "end_client_acts"))


async def _requests(connection: Connection, name: str, *parameters: int) -> list[WaitingAct]:
    cursor = await connection.execute(query("acts", name), parameters)
    return [
        WaitingAct(
            act_id=row[0],
            kind=row[1],
            is_apply=row[2] != "plan_requested",
            topic_id=row[3],
            subscription_id=row[4],
            topic_name=row[5],
            subscription_name=row[6],
            parameters=row[7],
            plan=row[8],
            cursor_version=row[9],
            undo_of=row[10],
            waited_s=row[11],
            who=row[12],
            progress=row[13],
            message=None if row[14] is None else bytes(row[14]),
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
    error_code: str = "",
    cursor_version: int | None = None,
) -> None:
    """Answer a request or end a client's act, without moving a cursor. Safe to repeat.

    `plan` and `result` are JSON. If an argument is None, the stored value stays unchanged.
    """
    await connection.execute(
        query("acts", "finish"),
        {
            "id": act_id,
            "state": state,
            "plan": plan,
            "result": result,
            "error": error,
            "error_code": error_code,
            "cursor_version": cursor_version,
        },
    )


async def replan(
    connection: Connection,
    *,
    act_id: int,
    plan: str,
    cursor_version: int | None,
    error: str,
    error_code: str,
) -> None:
    """Refuse to apply an act, and store a new plan as a separate act. Safe to repeat."""
    await connection.execute(
        query("acts", "replan"),
        {
            "id": act_id,
            "plan": plan,
            "cursor_version": cursor_version,
            "error": error,
            "error_code": error_code,
        },
    )


async def begin(connection: Connection, act_id: int) -> None:
    """Record that the broker begins a long-running act. Safe to repeat."""
    await connection.execute(query("acts", "begin"), (act_id,))


async def report(connection: Connection, act_id: int, progress: str) -> None:
    """Store the progress of an act as JSON."""
    await connection.execute(query("acts", "report"), (progress, act_id))


async def wake_requester(connection: Connection, act_id: int) -> None:
    """Wake the processes that wait for this act."""
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
    passed: AckOverlay,
) -> bool:
    """Store a cursor's new state with the act's result. Safe to repeat.

    Return False if `owner_epoch` is out of date or the subscription was deleted. `passed` has the entries that the
    act acked beyond the new mark-delete position.
    """
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
            "acked_since": encode_overlay(passed) if passed.passed and undo_window_s else None,
            "undo_window_s": undo_window_s,
        },
    )
    return await cursor.fetchone() is not None


async def record_change(
    connection: Connection,
    *,
    kind: str,
    topic: str,
    subscription: str,
    parameters: Mapping[str, object],
    who: str,
    origin: str,
    reason: str,
) -> None:
    """Record a change that needs no plan. The caller makes the change in the same transaction."""
    await connection.execute(
        query("acts", "record_change"),
        {
            "kind": kind,
            "topic": topic,
            "subscription": subscription,
            "parameters": json.dumps(dict(parameters)),
            "who": who,
            "origin": origin,
            "reason": reason,
        },
    )


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
) -> int:
    """Insert the act of a client command, an eviction or an expiry. Return the act's id.

    `apply_to_cursor` or `finish` stores the result.
    """
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
    if row is None:
        raise psycopg.InternalError("record_client_act returned nothing")
    return int(row[0])


async def record_commit(
    connection: Connection,
    *,
    topic_id: int,
    subscription_id: int,
    topic_name: str,
    subscription_name: str,
    parameters: str,
    offset: int,
    who: str,
    origin: str,
    cursor_version: int,
) -> None:
    """Record a pull consumer's commit."""
    await connection.execute(
        query("acts", "record_commit"),
        {
            "topic_id": topic_id,
            "subscription_id": subscription_id,
            "topic_name": topic_name,
            "subscription_name": subscription_name,
            "parameters": parameters,
            "offset": offset,
            "who": who,
            "origin": origin,
            "cursor_version": cursor_version,
        },
    )


async def undo_source(connection: Connection, act_id: int) -> UndoSource | None:
    """Return the act with this id, or None. The caller checks whether the act can be undone."""
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
        acked_since=recorded_acks(row[7], row[5]),
    )


async def open_undos(connection: Connection, topic_id: int) -> list[OpenUndo]:
    """Return the latest move of each cursor, if the move can still be undone."""
    cursor = await connection.execute(query("acts", "open_undos"), (topic_id,))
    return [
        OpenUndo(
            subscription_id=row[0], act_id=row[1], until_ms=row[2], acked_since=recorded_acks(row[4], row[3])
        )
        for row in await cursor.fetchall()
    ]


async def store_overlays(
    connection: Connection, *, epochs: Mapping[int, int], overlays: Sequence[tuple[int, int, AckOverlay]]
) -> None:
    """Store overlays. Safe to repeat.

    `epochs` maps topic ids to owner epochs. If a topic's epoch is out of date, its overlays are not stored. Each item
    of `overlays` is a topic id, an act id and the act's overlay.
    """
    await connection.execute(
        query("acts", "store_overlays"),
        (
            list(epochs.keys()),
            list(epochs.values()),
            [topic_id for topic_id, _, _ in overlays],
            [act_id for _, act_id, _ in overlays],
            [encode_overlay(overlay) for _, _, overlay in overlays],
        ),
    )


def inside_to_json(inside: tuple[Position, int] | None) -> dict[str, str] | None:
    """Encode a partly acked batch, given as its position and the bitset of its unacked messages."""
    return None if inside is None else {"position": str(inside[0]), "remaining": f"{inside[1]:x}"}


def recorded_acks(acked_since: bytes | None, result: Mapping[str, Any] | None) -> AckOverlay:
    """Return the acks recorded for an act's undo."""
    after = (result or {}).get("after")
    mark_delete = LATEST if after is None else Position.parse(after)
    if acked_since is None:
        return AckOverlay(mark_delete=mark_delete)
    return decode_overlay(bytes(acked_since), mark_delete=mark_delete)


async def latest_move(connection: Connection, subscription_id: int) -> int | None:
    """Return the id of the last act that moved this cursor, or None. Commits of pull consumers do not count."""
    cursor = await connection.execute(query("acts", "latest_move"), (subscription_id,))
    row = await cursor.fetchone()
    return None if row is None else int(row[0])
