"""Operators' acts, the asking side (design 9): plan → apply → receipt → undo, for the console, commands and the API.

Synchronous. Plan and apply are answered by the topic's owner; a call waits for that at most `wait_s` and then returns
the act still waiting: show its page, it is answered when a broker runs, or expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.service.act_plan import KINDS
from broker.storage import act_requests as store

__all__ = ["ActRefused", "ActView", "apply", "get", "plan", "plan_undo"]

WAIT_S = 2.0


class ActRefused(Exception):
    """The request makes no sense as it is; `text` tells the operator what to change."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class ActView:
    """An act as it is now."""

    id: int
    kind: str  # reset, skip, clear, undo; seek and unsubscribe are clients' own
    state: str  # Act.State: plan_requested, planned, apply_requested, applied, refused, failed, expired
    topic: str
    subscription: str
    parameters: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: str
    who: str
    origin: str
    reason: str
    cursor_version: int | None
    undo_of: int | None
    undo_until: datetime | None
    created_at: datetime
    requested_at: datetime
    finished_at: datetime | None

    @property
    def is_waiting(self) -> bool:
        """No broker has answered yet."""
        return self.state in ("plan_requested", "apply_requested")


def plan(
    kind: str,
    *,
    topic: str,
    subscription: str,
    parameters: Mapping[str, object],
    who: str,
    origin: str,
    reason: str = "",
    wait_s: float = WAIT_S,
) -> ActView:
    """Ask what an act would do. Changes nothing. Raises ActRefused for an unknown kind or subscription."""
    if kind not in KINDS or kind == "undo":
        raise ActRefused(f"unknown act {kind!r}; one of {', '.join(k for k in KINDS if k != 'undo')}")
    return _ask(kind, topic, subscription, parameters, who, origin, reason, None, wait_s)


def plan_undo(act_id: int, *, who: str, origin: str, wait_s: float = WAIT_S) -> ActView:
    """Ask what taking an act back would do; a new act of kind undo. Raises ActRefused when it moved no cursor."""
    act = get(act_id)
    if act.state != "applied":
        raise ActRefused(f"act {act_id} is {act.state}: only an applied act can be undone")
    return _ask("undo", act.topic, act.subscription, {}, who, origin, "", act_id, wait_s)


def apply(act_id: int, *, who: str, origin: str, reason: str = "", wait_s: float = WAIT_S) -> ActView:
    """Do what was planned, if the cursor still is where the plan saw it. Raises ActRefused unless it is planned."""
    if not store.request_apply(act_id, who=who, origin=origin, reason=reason):
        act = get(act_id)
        raise ActRefused(f"act {act_id} is {act.state}: only a planned act can be applied")
    return _view(store.wait(act_id, wait_s), act_id)


def get(act_id: int) -> ActView:
    """The act as it is now. Raises ActRefused when there is none of that number."""
    return _view(store.get(act_id), act_id)


def _ask(
    kind: str,
    topic: str,
    subscription: str,
    parameters: Mapping[str, object],
    who: str,
    origin: str,
    reason: str,
    undo_of: int | None,
    wait_s: float,
) -> ActView:
    act_id = store.request_plan(
        kind=kind,
        topic=topic,
        subscription=subscription,
        parameters=parameters,
        who=who,
        origin=origin,
        reason=reason,
        undo_of=undo_of,
    )
    if act_id is None:
        raise ActRefused(f"there is no subscription {subscription!r} on {topic}")
    return _view(store.wait(act_id, wait_s), act_id)


def _view(row: store.Row | None, act_id: int) -> ActView:
    if row is None:
        raise ActRefused(f"there is no act {act_id}")
    return ActView(
        id=row[0],
        kind=row[1],
        state=row[2],
        topic=row[3],
        subscription=row[4],
        parameters=row[5],
        plan=row[6],
        result=row[7],
        error=row[8],
        who=row[9],
        origin=row[10],
        reason=row[11],
        cursor_version=row[12],
        undo_of=row[13],
        undo_until=row[14],
        created_at=row[15],
        requested_at=row[16],
        finished_at=row[17],
    )
