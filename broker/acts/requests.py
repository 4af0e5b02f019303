"""Plan, apply, undo and refuse acts, for the console, management commands and the API.

An act is a change that the broker makes on request. If no broker answers within `wait_s` seconds, the returned act is
still waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from broker.acts.kinds.base import ActKind, Scope
from broker.acts.kinds.drift import MOST_DRIFT_MESSAGES, TYPED_ABOVE_MESSAGES
from broker.acts.kinds.parameters import json_schema
from broker.acts.kinds.partition_choice import PARTITIONS, PARTITIONS_SCHEMA
from broker.acts.kinds.registry import KINDS, find_kind
from broker.acts.second_person import (
    SecondPersonNeeded,
    complaint,
    is_user,
    namespace_of,
    without_account,
)
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
    "check_planned",
    "check_topic_name",
    "described_kinds",
    "full_name",
    "get",
    "other_topics",
    "plan",
    "plan_undo",
    "refuse",
]

WAIT_S = 2.0
UndoObstacle = Literal["", "kind", "undone", "cursor gone", "moved", "no time", "time over"]
_RETRIABLE = frozenset(("ActConflict", "ActExpired", "ConsumerBusy", "PersistenceError", "ServiceNotReady"))


class ActRefused(Exception):
    """The request is refused."""

    def __init__(self, text: str, *, code: str = "InvalidParameters") -> None:
        super().__init__(text)
        self.text = text
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ActView:
    """A snapshot of an act."""

    id: int
    kind: str
    state: str  # A value of Act.State
    # The full name of a topic, tenant/namespace for a namespace, tenant/* for a tenant, or * for a token
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
    error_code: str = ""
    progress: Mapping[str, Any] | None = None
    undone_by: int | None = None
    undoable: bool = False
    needs_reason: bool = False
    part_of: int | None = None  # Id of the larger act that contains this act
    moved_by: int | None = None  # Id of a later act that moved one of this act's cursors
    is_cursor_gone: bool = False
    needs_second_person: bool = False

    @property
    def planned_by(self) -> str:
        """Return who planned the act. Another user may have applied or refused the plan."""
        return str((self.plan or {}).get("planned_by", self.who))

    @property
    def planned_from(self) -> str:
        """Return the origin of the plan."""
        return str((self.plan or {}).get("planned_from", self.origin))

    @property
    def is_waiting(self) -> bool:
        """Return whether the act still waits for a broker's answer."""
        return self.state in ("plan_requested", "apply_requested")

    @property
    def new_plan(self) -> int | None:
        """Return the id of the new plan that replaces this act's plan, or None."""
        return (self.result or {}).get("new_plan")

    @property
    def undo_obstacle(self) -> UndoObstacle:
        """Return why an applied act cannot be undone, or an empty string."""
        kind = KINDS.get(self.kind)
        if self.state != "applied" or self.undoable or kind is None:
            return ""
        if not kind.can_undo:
            return "kind"
        if self.undone_by is not None:
            return "undone"
        if self.is_cursor_gone:
            return "cursor gone"
        if self.moved_by is not None:
            return "moved"
        return "no time" if self.undo_until is None else "time over"

    @property
    def no_undo(self) -> str:
        """Return why acts of this kind cannot be undone, or an empty string if they can."""
        kind = KINDS.get(self.kind)
        return "" if kind is None or kind.can_undo else kind.no_undo

    @property
    def is_retriable(self) -> bool:
        """Return whether the act may succeed if it is planned again."""
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
    """Plan an act, and return the act.

    `topic` is a topic's full name, or tenant/namespace for an act on a namespace.

    Raises ActRefused if the request does not fit the kind, or if the topic, subscription or namespace does not exist.
    Also raises ActRefused if the namespace has the policy `second_person`, and the request does not come from a user.
    """
    try:
        asked = find_kind(kind)
        if not asked.can_be_requested:
            raise ActRefused(
                f"acts of kind {kind} cannot be planned: only the broker, the admin API or an undo creates them",
                code="InvalidParameters",
            )
        message = asked.message_of(asked.read(parameters))
    except BrokerError as error:
        raise ActRefused(str(error), code="InvalidParameters") from error
    if bool(subscription) is not (asked.scope is Scope.SUBSCRIPTION):
        raise ActRefused(
            f"{kind} needs a subscription"
            if asked.scope is Scope.SUBSCRIPTION
            else f"{kind} acts on a {asked.scope}: leave out the subscription",
            code="InvalidParameters",
        )
    stored = {name: value for name, value in parameters.items() if name not in asked.of_message}
    return _ask(kind, asked.scope, topic, subscription, stored, message, who, origin, reason, None, wait_s)


def plan_undo(act_id: int, *, who: str, origin: str, reason: str = "", wait_s: float = WAIT_S) -> ActView:
    """Plan an act that undoes an earlier act, and return the new act.

    Raises ActRefused if the earlier act was not applied or cannot be undone.
    """
    act = get(act_id)
    if act.state != "applied":
        raise ActRefused(f"act {act_id} is {act.state}: only an applied act can be undone", code="WrongState")
    if act.undone_by is not None:
        raise ActRefused(f"act {act_id} was already undone by act {act.undone_by}", code="CannotUndo")
    kind = KINDS.get(act.kind)
    if kind is None or not kind.can_undo:
        raise ActRefused(f"act {act_id} is of kind {act.kind}, which cannot be undone", code="CannotUndo")
    return _ask(
        "undo", Scope.SUBSCRIPTION, act.topic, act.subscription, {}, None, who, origin, reason, act_id, wait_s
    )


def apply(
    act_id: int,
    *,
    who: str,
    origin: str,
    reason: str = "",
    allowed_drift_messages: int | None = None,
    wait_s: float = WAIT_S,
) -> ActView:
    """Apply a plan, and return the act.

    `allowed_drift_messages` is how many messages the act may affect beyond its plan. If it is None, the limit in the
    plan applies. If the act would affect more messages, the broker refuses the act and makes a new plan.

    Raises ActRefused if the act's state is not `planned`, if a required reason is not given, or if another user must
    apply the act.
    """
    if allowed_drift_messages is not None and not 0 <= allowed_drift_messages <= MOST_DRIFT_MESSAGES:
        raise ActRefused(
            f"allowed_drift_messages is {allowed_drift_messages}: it takes a number from 0 to {MOST_DRIFT_MESSAGES}"
        )
    if not store.request_apply(
        act_id, who=who, origin=origin, reason=reason, allowed_drift_messages=allowed_drift_messages
    ):
        raise _why_not_applied(get(act_id), who, origin)
    return _view(store.wait(act_id, wait_s), act_id)


def check_planned(act: ActView) -> None:
    """Raise ActRefused if the broker has not planned this act yet.

    Call this before `apply`, with the `ActView` that you used to check the user's rights. Before the plan exists, an
    `ActView` may lack topics to which the act publishes.
    """
    if act.state == "plan_requested":
        raise ActRefused(f"act {act.id} is {act.state}: only a planned act can be applied", code="WrongState")


def _why_not_applied(act: ActView, who: str, origin: str) -> ActRefused:
    if act.needs_second_person and (
        alone := complaint(
            act.id, act.topic, planner=act.who, planned_from=act.origin, who=who, origin=origin
        )
    ):
        return ActRefused(alone, code=SecondPersonNeeded.code)
    if act.state == "planned" and act.needs_reason:
        return ActRefused(
            f"namespace {namespace_of(act.topic)} is protected: give a reason for this act (policy protected)",
            code="ReasonMissing",
        )
    return ActRefused(f"act {act.id} is {act.state}: only a planned act can be applied", code="WrongState")


def refuse(act_id: int, *, who: str, origin: str, reason: str = "") -> ActView:
    """Refuse another user's plan, or withdraw your own, and return the act.

    Raises ActRefused if the act's state is not `planned`.
    """
    act = get(act_id)
    verdict = f"user {who} {'withdrew' if who == act.who else 'refused'} the plan"
    words = f"{verdict}: {reason.strip()}" if reason.strip() else verdict
    if not store.refuse(act_id, who=who, origin=origin, error=words, error_code="NotApproved"):
        raise ActRefused(
            f"act {act_id} is {get(act_id).state}: only a planned act can be refused", code="WrongState"
        )
    return get(act_id)


def full_name(kind: str, name: str) -> str:
    """Return the full name of a topic or namespace. Raises ActRefused if the name or the kind is invalid."""
    try:
        if find_kind(kind).scope in (Scope.NAMESPACE, Scope.NEW_NAMESPACE):
            return "/".join(parse_namespace(name))
        return TopicName.parse(name).full
    except InvalidTopicName as error:
        raise ActRefused(str(error), code=error.code) from error
    except BrokerError as error:
        raise ActRefused(str(error)) from error


def check_topic_name(name: str) -> None:
    """Raise ActRefused if `name` is not a valid topic name."""
    try:
        TopicName.parse(name)
    except InvalidTopicName as error:
        raise ActRefused(str(error), code=error.code) from error


def other_topics(
    kind: str, parameters: Mapping[str, object], planned: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return the full names of the topics to which an act publishes, except the act's own topic.

    Invalid parameters raise no error.
    """
    asked = KINDS.get(kind)
    if asked is None:
        return ()
    try:
        named = asked.other_topics(asked.read(parameters))
    except BrokerError:
        named = ()
    shown = planned or {}
    parts = [shown, *shown.get(PARTITIONS, ())]
    return (*named, *(name for part in parts for name in asked.other_topics_of_plan(part)))


def described_kinds() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return the name, summary, scope and JSON Schema of every kind that can be requested."""
    return [
        (kind.name, kind.summary, kind.scope.value, _schema(kind))
        for kind in KINDS.values()
        if kind.can_be_requested
    ]


def _schema(kind: ActKind[Any]) -> dict[str, Any]:
    schema = json_schema(kind.parameters)
    if kind.takes_partitions:
        schema["properties"][PARTITIONS] = PARTITIONS_SCHEMA
    return schema


def get(act_id: int) -> ActView:
    """Return the act. Raises ActRefused if the act does not exist."""
    return _view(store.get(act_id), act_id)


def _ask(
    kind: str,
    scope: Scope,
    topic: str,
    subscription: str,
    parameters: Mapping[str, object],
    message: bytes | None,
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
        message=message,
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
    act = _view(store.wait(act_id, wait_s), act_id)
    if act.needs_second_person and not is_user(origin):
        words = without_account(topic)
        store.refuse(act_id, who=who, origin=origin, error=words, error_code=SecondPersonNeeded.code)
        raise ActRefused(words, code=SecondPersonNeeded.code)
    return act


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
        needs_reason=row[22],
        part_of=row[23],
        moved_by=row[24],
        is_cursor_gone=row[25],
        needs_second_person=row[26],
    )
