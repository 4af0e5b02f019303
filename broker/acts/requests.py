"""Operators' acts, the asking side: plan → apply → receipt → undo, for the console, commands and the API.

Synchronous. Plan and apply are answered by the topic's owner; a call waits for that at most `wait_s` and then returns
the act still waiting: show its page, it is answered when a broker runs, or expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.acts.kinds.base import Scope
from broker.acts.kinds.drift import TYPED_ABOVE_MESSAGES
from broker.acts.kinds.parameters import json_schema
from broker.acts.kinds.registry import KINDS, find_kind
from broker.core.errors import BrokerError, InvalidTopicName
from broker.core.topic_name import TopicName, parse_namespace
from broker.storage.acts import requests as store

__all__ = [
    "KINDS",
    "MOST_DRIFT_MESSAGES",
    "TYPED_ABOVE_MESSAGES",
    "ActRefused",
    "ActView",
    "apply",
    "check_topic_name",
    "described_kinds",
    "full_name",
    "get",
    "plan",
    "plan_undo",
]

WAIT_S = 2.0
MOST_DRIFT_MESSAGES = 10**15
_RETRIABLE = frozenset(("ActConflict", "ActExpired", "ConsumerBusy", "PersistenceError", "ServiceNotReady"))


class ActRefused(Exception):
    """The request makes no sense as it is; `text` tells the operator what to change."""

    def __init__(self, text: str, *, code: str = "InvalidParameters") -> None:
        super().__init__(text)
        self.text = text
        self.code = code  # ActNotFound, InvalidParameters, InvalidTopicName, NothingToActOn, …


@dataclass(frozen=True, slots=True, kw_only=True)
class ActView:
    """An act as it is now."""

    id: int
    kind: str  # a name of act_kinds.registry
    state: str  # Act.State: plan_requested, planned, apply_requested, applied, refused, failed, expired
    topic: str  # of an act on a namespace: tenant/namespace
    subscription: str  # "" for an act on a topic or a namespace
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
    error_code: str = ""  # of a refusal, as clients know it
    progress: Mapping[str, Any] | None = None  # of long work under way, or as far as it came
    undone_by: int | None = None  # the act that took it back
    undoable: bool = False  # the latest applied act of its cursor, inside its window

    @property
    def is_waiting(self) -> bool:
        """No broker has answered yet."""
        return self.state in ("plan_requested", "apply_requested")

    @property
    def new_plan(self) -> int | None:
        """The act that holds the new preview, where an apply was refused because more would be done than planned."""
        return (self.result or {}).get("new_plan")

    @property
    def is_retriable(self) -> bool:
        """Whether the same may succeed when it is planned again."""
        return self.error_code in _RETRIABLE


def plan(
    kind: str,
    *,
    topic: str,
    subscription: str = "",
    parameters: Mapping[str, object],
    who: str,
    origin: str,
    reason: str = "",
    wait_s: float = WAIT_S,
) -> ActView:
    """Ask what an act would do. Changes nothing.

    `topic` is a full name, for an act on a namespace tenant/namespace; `subscription` is left out for both. Raises
    ActRefused for an unknown kind, bad parameters, and what the act is about when there is no such thing.
    """
    try:
        asked = find_kind(kind)
        if not asked.is_asked_for:
            raise ActRefused(f"{kind} is not asked for by itself", code="InvalidParameters")
        asked.read(parameters)
    except BrokerError as error:
        raise ActRefused(str(error), code="InvalidParameters") from error
    if bool(subscription) is not (asked.scope is Scope.SUBSCRIPTION):
        raise ActRefused(
            f"{kind} needs a subscription"
            if asked.scope is Scope.SUBSCRIPTION
            else f"{kind} is about a {asked.scope}: leave the subscription out",
            code="InvalidParameters",
        )
    return _ask(kind, asked.scope, topic, subscription, parameters, who, origin, reason, None, wait_s)


def plan_undo(act_id: int, *, who: str, origin: str, wait_s: float = WAIT_S) -> ActView:
    """Ask what taking an act back would do; a new act of kind undo. Raises ActRefused when it moved no cursor."""
    act = get(act_id)
    if act.state != "applied":
        raise ActRefused(f"act {act_id} is {act.state}: only an applied act can be undone", code="WrongState")
    if act.undone_by is not None:
        raise ActRefused(f"act {act_id} was undone by act {act.undone_by}", code="CannotUndo")
    kind = KINDS.get(act.kind)
    if kind is None or not kind.can_undo:
        raise ActRefused(f"act {act_id} is of kind {act.kind}, which cannot be undone", code="CannotUndo")
    return _ask("undo", Scope.SUBSCRIPTION, act.topic, act.subscription, {}, who, origin, "", act_id, wait_s)


def apply(
    act_id: int,
    *,
    who: str,
    origin: str,
    reason: str = "",
    allowed_drift_messages: int | None = None,
    wait_s: float = WAIT_S,
) -> ActView:
    """Do what was planned, if the cursor still is where the plan saw it.

    `allowed_drift_messages` is how many more than planned may come again, or be lost by a delete; None is what the plan
    allows, 0 is exactly what it shows. When it would be more, the act is refused and its `new_plan` is the act that
    holds the new preview. Raises ActRefused unless it is planned, or for a number out of range.
    """
    if allowed_drift_messages is not None and not 0 <= allowed_drift_messages <= MOST_DRIFT_MESSAGES:
        raise ActRefused(
            f"allowed_drift_messages is {allowed_drift_messages}: it takes a number from 0 to {MOST_DRIFT_MESSAGES}"
        )
    if not store.request_apply(
        act_id, who=who, origin=origin, reason=reason, allowed_drift_messages=allowed_drift_messages
    ):
        act = get(act_id)
        raise ActRefused(f"act {act_id} is {act.state}: only a planned act can be applied", code="WrongState")
    return _view(store.wait(act_id, wait_s), act_id)


def full_name(kind: str, name: str) -> str:
    """What an act of this kind is about, as `plan` takes it: a topic's name may be short. Raises ActRefused."""
    try:
        if find_kind(kind).scope is Scope.NAMESPACE:
            return "/".join(parse_namespace(name))
        return TopicName.parse(name).full
    except InvalidTopicName as error:
        raise ActRefused(str(error), code=error.code) from error
    except BrokerError as error:
        raise ActRefused(str(error)) from error


def check_topic_name(name: str) -> None:
    """Raises ActRefused for what no topic can be called."""
    try:
        TopicName.parse(name)
    except InvalidTopicName as error:
        raise ActRefused(str(error), code=error.code) from error


def described_kinds() -> list[tuple[str, str, str, dict[str, Any]]]:
    """(name, summary, what it is about, JSON Schema of its parameters) of every kind that can be asked for."""
    return [
        (kind.name, kind.summary, kind.scope.value, json_schema(kind.parameters))
        for kind in KINDS.values()
        if kind.is_asked_for
    ]


def get(act_id: int) -> ActView:
    """The act as it is now. Raises ActRefused when there is none of that number."""
    return _view(store.get(act_id), act_id)


def _ask(
    kind: str,
    scope: Scope,
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
        scope=scope,
        topic=topic,
        subscription=subscription,
        parameters=parameters,
        who=who,
        origin=origin,
        reason=reason,
        undo_of=undo_of,
    )
    if act_id is None:
        raise ActRefused(
            f"there is no subscription {subscription!r} on {topic}"
            if scope is Scope.SUBSCRIPTION
            else f"there is no {scope} {topic}",
            code="NothingToActOn",
        )
    return _view(store.wait(act_id, wait_s), act_id)


def _view(row: store.Row | None, act_id: int) -> ActView:
    if row is None:
        raise ActRefused(f"there is no act {act_id}", code="ActNotFound")
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
        error_code=row[18],
        progress=row[19],
        undone_by=row[20],
        undoable=row[21],
    )
