"""Acts over HTTP: plan, apply, undo, look.

A plan and an apply are answered within 2 s, or with 202 and the act's address, where its state can be followed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.urls import reverse

from broker.acts import requests as acts
from broker.acts.kinds.parameters import STORABLE_TEXT, is_storable_text
from console.access import Rights
from console.api.access import api, body_of
from console.api.problems import Problem
from console.origin import origin_of
from console.queries.acts import ActsAsked, act_log

__all__ = ["act", "act_apply", "act_undo", "acts_view"]

_STATUS = {
    "ActNotFound": 404,
    "NothingToActOn": 404,
    "SubscriptionNotFound": 404,
    "TopicNotFound": 404,
    "InvalidParameters": 422,
    "WrongState": 409,
    "CannotUndo": 409,
}
_TAKES = {"kind", "topic", "subscription", "parameters", "reason"}
_APPLY_TAKES = {"allowed_drift_messages", "reason"}


@api("GET", "HEAD", "POST")
def acts_view(request: HttpRequest, rights: Rights) -> HttpResponseBase:
    """GET: the log, newest first. POST: plan an act."""
    if request.method == "POST":
        _require_acting(rights)
        return _plan(request, rights)
    asked, before = request.GET, request.GET.get("before", "")
    if before and not (before.isdecimal() and len(before) < 19):
        raise Problem(400, "BadQuery", f"before is {before!r}: it takes an act's number")
    rows, next_before = act_log(
        ActsAsked(
            search=asked.get("q", "").replace("\0", "").strip(),
            kind=asked.get("kind", "").replace("\0", ""),
            state=asked.get("state", "").replace("\0", ""),
            before=int(before) if before else None,
        )
    )
    return JsonResponse({"acts": [asdict(row) for row in rows], "next_before": next_before})


@api("GET", "HEAD")
def act(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponseBase:
    """One act as it is now."""
    try:
        return JsonResponse(_to_json(acts.get(act_id)))
    except acts.ActRefused as refused:
        raise _problem(refused) from refused


@api("POST", acts=True)
def act_apply(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponseBase:
    """Do what was planned."""
    body = body_of(request)
    reason = _text(body, "reason", _APPLY_TAKES)
    allowed = body.get("allowed_drift_messages")
    if allowed is not None and (not isinstance(allowed, int) or isinstance(allowed, bool)):
        raise Problem(422, "InvalidParameters", "allowed_drift_messages takes a whole number")
    try:
        view = acts.apply(
            act_id,
            who=rights.name,
            origin=_origin(request),
            reason=reason,
            allowed_drift_messages=allowed,
        )
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, done=200)


@api("POST", acts=True)
def act_undo(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponseBase:
    """Plan taking an act back: an act of its own, to be applied."""
    body = body_of(request)
    if body:
        raise Problem(422, "InvalidParameters", "an undo takes no body")
    try:
        view = acts.plan_undo(act_id, who=rights.name, origin=_origin(request))
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, done=201)


def _plan(request: HttpRequest, rights: Rights) -> HttpResponseBase:
    body = body_of(request)
    parameters = body.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Problem(422, "InvalidParameters", "parameters is not an object")
    kind, topic = _text(body, "kind", _TAKES), _text(body, "topic", _TAKES)
    if not kind or not topic:
        raise Problem(422, "InvalidParameters", "an act needs kind and topic")
    try:
        view = acts.plan(
            kind,
            topic=acts.full_name(kind, topic),
            subscription=_text(body, "subscription", _TAKES),
            parameters=parameters,
            who=rights.name,
            origin=_origin(request),
            reason=_text(body, "reason", _TAKES),
        )
    except acts.ActRefused as refused:
        raise _problem(refused) from refused
    return _answer(view, done=201)


def _answer(view: acts.ActView, *, done: int) -> HttpResponseBase:
    address = reverse("api:act", args=[view.id])
    if view.is_waiting or view.state == "applying":
        return JsonResponse(_to_json(view), status=202, headers={"Location": address, "Retry-After": "1"})
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
    return JsonResponse(_to_json(view), status=done, headers={"Location": address})


def _to_json(view: acts.ActView) -> dict[str, Any]:
    return asdict(view) | {
        "is_waiting": view.is_waiting,
        "is_retriable": view.is_retriable,
        "new_plan": view.new_plan,
    }


def _text(body: dict[str, Any], name: str, takes: set[str]) -> str:
    unknown = body.keys() - takes
    if unknown:
        raise Problem(
            422,
            "InvalidParameters",
            f"unknown member {min(unknown)!r}; this takes {', '.join(sorted(takes))}",
        )
    value = body.get(name) or ""
    if not is_storable_text(value):
        raise Problem(422, "InvalidParameters", f"{name} takes {STORABLE_TEXT}")
    return value


def _problem(refused: acts.ActRefused) -> Problem:
    return Problem(_STATUS.get(refused.code, 422), refused.code, refused.text)


def _origin(request: HttpRequest) -> str:
    return origin_of(request).replace("console", "api", 1)


def _require_acting(rights: Rights) -> None:
    if not rights.may_act:
        raise Problem(403, "AuthorizationError", "only staff and members of the group operator may do this")
