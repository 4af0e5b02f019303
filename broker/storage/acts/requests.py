"""Request acts from outside the broker. All calls are synchronous.

An act is a change that the broker plans, applies and records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from broker.storage.acts.acts import PEOPLE, PLAN_REQUESTS
from broker.storage.queries import query
from broker.storage.short_connection import short_connection

__all__ = ["get", "refuse", "request_apply", "request_plan", "wait"]

_POLL_S = 0.1
_WAITING = ("plan_requested", "apply_requested")

Row = tuple[Any, ...]


def request_plan(
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
    undo_of: int | None,
) -> int | None:
    """Request a plan and return the act's id, or None if the topic, subscription or namespace does not exist.

    `topic` is a full topic name, `tenant/namespace` or `tenant/*`. `message` is an encoded entry to publish.
    """
    with short_connection("vela act") as connection:
        row = connection.execute(
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
                "undo_of": undo_of,
            },
        ).fetchone()
        return None if row is None else int(row[0])


def request_apply(
    act_id: int, *, who: str, origin: str, reason: str, allowed_drift_messages: int | None
) -> bool:
    """Request to apply a plan. Return False if the plan cannot be applied now.

    `allowed_drift_messages` is how many messages the act may affect beyond its plan. If None, the plan sets the limit.
    """
    with short_connection("vela act") as connection:
        row = connection.execute(
            query("acts", "request_apply"),
            {
                "id": act_id,
                "who": who,
                "origin": origin,
                "reason": reason,
                "allowed_drift_messages": allowed_drift_messages,
                "people": list(PEOPLE),
            },
        ).fetchone()
        return row is not None


def refuse(act_id: int, *, who: str, origin: str, error: str, error_code: str) -> bool:
    """Refuse a plan. Return False if the plan cannot be refused now."""
    with short_connection("vela act") as connection:
        row = connection.execute(
            query("acts", "refuse"),
            {"id": act_id, "who": who, "origin": origin, "error": error, "error_code": error_code},
        ).fetchone()
        return row is not None


def get(act_id: int) -> Row | None:
    """Return the act's row, or None if the act does not exist."""
    with short_connection("vela act") as connection:
        return connection.execute(query("acts", "get"), (act_id,)).fetchone()


def wait(act_id: int, wait_s: float) -> Row | None:
    """Wake the broker and wait for its answer. Return the act's row, even if no answer comes in time."""
    with short_connection("vela act") as connection:
        connection.execute("LISTEN vela_act_done")
        connection.execute(query("acts", "wake_owner"), (act_id,))
        deadline_s = time.monotonic() + wait_s
        while True:
            row = connection.execute(query("acts", "get"), (act_id,)).fetchone()
            left_s = deadline_s - time.monotonic()
            if row is None or row[2] not in _WAITING or left_s <= 0:
                return row
            # The loop also polls, because a notification can be lost.
            for _ in connection.notifies(timeout=min(_POLL_S, left_s), stop_after=1):
                break
