"""Request acts of a running broker as the console does: insert a row, notify, and read the answer."""

from __future__ import annotations

import json
from typing import Any

from tests.support.broker_harness import BrokerRun, eventually, one_row, rows

__all__ = ["answered", "apply", "ask", "done", "planned", "refused"]


async def ask(
    run: BrokerRun,
    kind: str,
    parameters: dict[str, Any] | None = None,
    *,
    subscription: str | None = "s",
    topic: str = "t",
    undo_of: int | None = None,
) -> int:
    """Insert a request for a plan and return the act's id. Without a subscription, it is an act on the topic."""
    (act_id,) = one_row(
        run.database_url,
        "INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters,"
        " error, who, origin, reason, undo_of_id, created_at, requested_at)"
        " SELECT %s, 'plan_requested', t.id, s.id, t.name, coalesce(%s, ''), %s, '', 'op', 'test', '', %s, now(),"
        " now() FROM vela_topic t LEFT JOIN vela_subscription s ON s.topic_id = t.id AND s.name = %s"
        " WHERE t.name = 'persistent://public/default/' || %s RETURNING id",
        kind,
        subscription,
        json.dumps(parameters or {}),
        undo_of,
        subscription,
        topic,
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    return int(act_id)


async def answered(run: BrokerRun, act_id: int) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """Wait until the act neither waits nor is under way. Return its state, plan, result and error."""

    def look() -> tuple[Any, ...] | None:
        row = one_row(
            run.database_url, "SELECT state, plan, result, error FROM vela_act WHERE id = %s", act_id
        )
        return None if row[0].endswith("_requested") or row[0] == "applying" else row

    found = await eventually(look, f"act {act_id} to be answered")
    assert found is not None
    state, plan, result, error = found
    return state, plan or {}, result or {}, error


async def planned(
    run: BrokerRun, kind: str, parameters: dict[str, Any] | None = None, **about: Any
) -> tuple[int, dict[str, Any]]:
    """Request a plan and return the act's id and its plan. Fail if the broker refuses."""
    act_id = await ask(run, kind, parameters, **about)
    state, plan, _, error = await answered(run, act_id)
    assert state == "planned", error
    return act_id, plan


async def refused(run: BrokerRun, kind: str, parameters: dict[str, Any] | None = None, **about: Any) -> str:
    """Request a plan and return the error with which the broker must refuse it."""
    state, _, _, error = await answered(run, await ask(run, kind, parameters, **about))
    assert state == "refused", state
    return error


async def apply(run: BrokerRun, act_id: int) -> tuple[str, dict[str, Any], str]:
    """Apply a plan. Return the act's state, result and error."""
    rows(
        run.database_url,
        "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
        act_id,
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    state, _, result, error = await answered(run, act_id)
    return state, result, error


async def done(
    run: BrokerRun, kind: str, parameters: dict[str, Any] | None = None, **about: Any
) -> tuple[int, dict[str, Any]]:
    """Plan and apply an act, which must succeed. Return its id and its result."""
    act_id, _ = await planned(run, kind, parameters, **about)
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    return act_id, result
