"""Operations on acts, which are recorded changes."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse, HttpResponseBase
from django.urls import reverse
from ninja import Body, Query, Router
from ninja.responses import Status
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

from broker.acts import requests as acts
from broker.environment import Between
from broker.models.acts import Act as StoredAct
from console.access import named_by
from console.act_log.export import export_acts
from console.api.access import ACTS, AuthorizedRequest, check_may_act
from console.api.answers import Act, Acts
from console.api.app import read
from console.api.parameters import SearchText, StorableText
from console.api.problems import Problem
from console.files import CONTENT_TYPES, TOO_MANY, TRY_AGAIN, Form, sent, take_place
from console.origin import api_origin_of
from console.queries.acts import ActsAsked, act_log
from console.words.acts import KINDS

__all__ = ["router"]

_STATUS = {
    "ActNotFound": 404,
    "NothingToActOn": 404,
    "SubscriptionNotFound": 404,
    "TopicNotFound": 404,
    "InvalidParameters": 422,
    "WrongState": 409,
    "SecondPersonNeeded": 403,
    "CannotUndo": 409,
}
_MOST_ACTS = 10**18 - 1
_FILES = {kind: {"schema": {"type": "string"}} for kind in CONTENT_TYPES.values()}
router = Router()


def _one_of(*known: str) -> AfterValidator:
    names = f"{', '.join(known[:-1])} or {known[-1]}"

    def check(text: str) -> str:
        if text and text not in known:
            raise PydanticCustomError("unknown", "use {names}", {"names": names})
        return text

    return AfterValidator(check)


class LoggedActs(BaseModel):
    """Filters for the log of acts."""

    q: Annotated[SearchText, Field(description="part of the name of a topic, a subscription or a user")] = ""
    kind: Annotated[SearchText, _one_of(*KINDS), Field(description="only this kind")] = ""
    state: Annotated[
        SearchText, _one_of(*StoredAct.State.values), Field(description="only in this state")
    ] = ""
    before: Annotated[
        int | None, Between(0, _MOST_ACTS), Field(description="the next_before of the previous page")
    ] = None

    @property
    def asked(self) -> ActsAsked:
        """The filters for the database query."""
        return ActsAsked(search=self.q, kind=self.kind, state=self.state, before=self.before)


class ExportedActs(LoggedActs):
    """The filters and the format of an export."""

    form: Annotated[Form, Field(alias="format")] = "ndjson"


class NewAct(BaseModel):
    """An act to plan."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[StorableText, Field(min_length=1)]
    topic: Annotated[StorableText, Field(min_length=1)]
    subscription: StorableText = ""
    parameters: dict[str, Any] = {}
    reason: StorableText = ""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"oneOf": [_described(*kind) for kind in acts.described_kinds()]}


class Application(BaseModel):
    """A request to apply a plan."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[StorableText, Field(description="kept in the log")] = ""
    allowed_drift_messages: Annotated[
        int | None,
        Field(
            strict=True,
            ge=0,
            le=acts.MOST_DRIFT_MESSAGES,
            description="how many more than planned may be delivered again, or be lost by a delete; 0: exactly what was"
            " planned; null: what the plan allows",
        ),
    ] = None


class Refusal(BaseModel):
    """A request to refuse a plan."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[StorableText, Field(max_length=500, description="kept in the log")] = ""


class Undo(BaseModel):
    """A request to undo an act."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[StorableText, Field(description="kept in the log")] = ""


_AS_PLANNED = Application()
_REFUSED = Refusal()
_UNDONE = Undo()


@read(router, "/acts", response=Acts)
def act_list(request: AuthorizedRequest, asked: Query[LoggedActs]) -> dict[str, Any]:
    """List the acts in the log, newest first, 50 at a time."""
    rows, next_before = act_log(asked.asked, request.auth.scope)
    return {"acts": rows, "next_before": next_before}


@read(router, "/acts/export", openapi_extra={"responses": {200: {"content": _FILES}}})
def export_log(request: AuthorizedRequest, asked: Query[ExportedActs]) -> HttpResponseBase:
    """Export the acts in the log as NDJSON or CSV, newest first, up to about 256 MiB.

    The last line says why the file ends and, if it ends early, where the next export begins.
    Status 503 means that the console is already sending two exports.
    """
    place = take_place()
    if place is None:
        raise Problem(503, "TooManyExports", TOO_MANY, retriable=True, headers=TRY_AGAIN)
    pieces = export_acts(asked.asked, request.auth.scope, form=asked.form)
    return sent(request, pieces, place, name="acts", form=asked.form)


@router.post("/acts", auth=ACTS, response={201: Act, 202: Act})
def plan_act(request: AuthorizedRequest, response: HttpResponse, asked: NewAct) -> Status[acts.ActView]:
    """Plan an act: show its exact effect and change nothing.

    Status 202 means that no broker has answered yet. Get the result from the address in the Location header.
    """
    try:
        name = acts.full_name(asked.kind, asked.topic)
        for each in named_by(asked.kind, name, asked.parameters):
            check_may_act(request.auth, each, asked.kind)
        view = acts.plan(
            asked.kind,
            topic=name,
            subscription=asked.subscription,
            parameters=asked.parameters,
            who=request.auth.name,
            origin=api_origin_of(request),
            reason=asked.reason,
        )
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, response, done=201)


@read(router, "/acts/{int:act_id}", response=Act, url_name="act")
def show_act(request: AuthorizedRequest, act_id: int) -> acts.ActView:
    """Show an act as it is now."""
    return _found(request, act_id)


@router.post("/acts/{int:act_id}/apply", auth=ACTS, response={200: Act, 202: Act})
def apply_act(
    request: AuthorizedRequest,
    response: HttpResponse,
    act_id: int,
    asked: Body[Application] = _AS_PLANNED,
) -> Status[acts.ActView]:
    """Apply a plan.

    Status 202 means that the act is under way or that no broker has answered yet. Get the result from the address in
    the Location header.

    Status 403 with the code SecondPersonNeeded means that another user must apply the plan.

    Status 409 means that the plan is out of date or in the wrong state. If the act would do more than planned, new_plan
    is the id of a new act with a new preview.
    """
    found = _found(request, act_id)
    _check_may_do(request, found)
    try:
        acts.check_planned(found)
        view = acts.apply(
            act_id,
            who=request.auth.name,
            origin=api_origin_of(request),
            reason=asked.reason,
            allowed_drift_messages=asked.allowed_drift_messages,
        )
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, response, done=200)


@router.post("/acts/{int:act_id}/refuse", auth=ACTS, response=Act)
def refuse_act(request: AuthorizedRequest, act_id: int, asked: Body[Refusal] = _REFUSED) -> acts.ActView:
    """Refuse a plan, or withdraw your own plan. Nobody can apply it afterwards."""
    _check_may_do(request, _found(request, act_id))
    try:
        return acts.refuse(act_id, who=request.auth.name, origin=api_origin_of(request), reason=asked.reason)
    except acts.ActRefused as refused:
        raise _problem(refused) from refused


@router.post("/acts/{int:act_id}/undo", auth=ACTS, response={201: Act, 202: Act})
def undo_act(
    request: AuthorizedRequest,
    response: HttpResponse,
    act_id: int,
    asked: Body[Undo] = _UNDONE,
) -> Status[acts.ActView]:
    """Plan the undo of an applied act.

    The undo is a new act, which must then be applied.
    """
    _check_may_do(request, _found(request, act_id))
    try:
        view = acts.plan_undo(
            act_id, who=request.auth.name, origin=api_origin_of(request), reason=asked.reason
        )
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, response, done=201)


def _found(request: AuthorizedRequest, act_id: int) -> acts.ActView:
    try:
        view = acts.get(act_id)
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    if not request.auth.may_see_act(view.topic):
        raise Problem(404, "ActNotFound", f"there is no act {act_id}")
    return view


def _check_may_do(request: AuthorizedRequest, act: acts.ActView) -> None:
    for name in named_by(act.kind, act.topic, act.parameters, act.plan):
        check_may_act(request.auth, name, act.kind)


def _answer(view: acts.ActView, response: HttpResponse, *, done: int) -> Status[acts.ActView]:
    address = reverse("api:act", args=[view.id])
    if view.is_waiting or view.state == "applying":
        response["Location"], response["Retry-After"] = address, "1"
        return Status(202, view)
    if view.error:
        refused = 409 if view.is_retriable else _STATUS.get(view.error_code, 422)
        status = {"failed": 500, "expired": 503}.get(view.state, refused)
        more: dict[str, Any] = {} if view.new_plan is None else {"new_plan": view.new_plan}
        raise Problem(
            status,
            view.error_code or "UnknownError",
            view.error,
            retriable=view.is_retriable,
            act=view.id,
            instance=address,
            **more,
        )
    response["Location"] = address
    return Status(done, view)


def _problem(refused: acts.ActRefused) -> Problem:
    return Problem(_STATUS.get(refused.code, 422), refused.code, refused.text)


def _described(name: str, summary: str, scope: str, parameters: dict[str, Any]) -> dict[str, Any]:
    needs = ["kind", "topic"]
    if scope == "subscription":
        needs.append("subscription")
    if parameters.get("required"):
        needs.append("parameters")
    topic = "tenant/namespace" if scope.endswith("namespace") else "a topic, in full or short"
    return {
        "title": name,
        "description": summary,
        "type": "object",
        "additionalProperties": False,
        "required": needs,
        "properties": {
            "kind": {"const": name},
            "topic": {"type": "string", "description": topic},
            **({"subscription": {"type": "string"}} if scope == "subscription" else {}),
            "parameters": parameters,
            "reason": {"type": "string", "description": "kept in the log"},
        },
    }
