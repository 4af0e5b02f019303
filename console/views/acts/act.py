"""The page of one act. An act is a logged change, such as a cursor reset."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.acts import requests as acts
from broker.acts.requests import ActView
from broker.acts.second_person import SECOND_PERSON_S, is_user
from broker.conf import broker_settings
from console.access import Rights, check_may_act, named_by, operator_only, viewer
from console.access.roles import namespace_of, role_for
from console.addresses import api_url, past_url, short_name
from console.blocks import Source, answer
from console.forms import ApplyForm
from console.origin import origin_of
from console.queries.chrome import chrome
from console.queries.people.users import others_with
from console.topic_forms.refused import form_address, refusal_in_form
from console.views.post_only import post_only
from console.words.act_place import DELETING_SUBSCRIPTIONS
from console.words.numerals import in_utc
from console.words.same_act import same_act

__all__ = ["act", "apply", "refuse", "undo"]

_LONGEST_REASON: Final = 500
_APPLIED_ONCE: Final = ("apply_requested", "applying", "applied")


@require_safe
@viewer
def act(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Show an act's current state."""
    view, rights = _found(act_id, rights)
    return _answer(request, rights, view)


@post_only("console:act", "act_id")
@operator_only
def apply(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Apply a plan.

    A repeated request from the same user, such as a double click, only redirects to the act's page.
    """
    view, rights = _found_to_act_on(act_id, rights)
    if view.who == rights.name and view.state in _APPLIED_ONCE:
        return redirect("console:act", act_id)
    form = _apply_form(view, request.POST)
    if not form.is_valid():
        return _answer(request, rights, view, form, status=422)
    try:
        acts.check_planned(view)
        acts.apply(
            act_id,
            who=rights.name,
            origin=origin_of(request),
            reason=form.cleaned_data["reason"],
            allowed_drift_messages=form.cleaned_data["allowed_drift_messages"],
        )
    except acts.ActRefused as refused:
        return _answer(request, rights, _get(act_id), refusal=refused.text, status=409)
    return redirect("console:act", act_id)


@post_only("console:act", "act_id")
@operator_only
def refuse(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Refuse a plan, or withdraw the user's own plan."""
    rights = _found_to_act_on(act_id, rights)[1]
    reason = request.POST.get("why", "").replace("\0", "")[:_LONGEST_REASON]
    try:
        acts.refuse(act_id, who=rights.name, origin=origin_of(request), reason=reason)
    except acts.ActRefused as refused:
        return _answer(request, rights, _get(act_id), refusal=refused.text, status=409)
    return redirect("console:act", act_id)


@post_only("console:act", "act_id")
@operator_only
def undo(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Plan the undo of an applied act."""
    view, rights = _found_to_act_on(act_id, rights)
    try:
        planned = acts.plan_undo(act_id, who=rights.name, origin=origin_of(request))
    except acts.ActRefused as refused:
        return _answer(request, rights, view, refusal=refused.text, status=409)
    return redirect("console:act", planned.id)


def _found(act_id: int, rights: Rights) -> tuple[ActView, Rights]:
    view = _get(act_id)
    if not rights.may_see_act(view.topic):
        raise Http404(_("There is no act {act_id}.").format(act_id=act_id))
    return view, rights.at(view.topic)


def _found_to_act_on(act_id: int, rights: Rights) -> tuple[ActView, Rights]:
    view, rights = _found(act_id, rights)
    for name in _names(view):
        check_may_act(rights, name, view.kind)
    return view, rights


def _names(view: ActView) -> tuple[str, ...]:
    return named_by(view.kind, view.topic, view.parameters, view.plan)


def _get(act_id: int) -> ActView:
    try:
        return acts.get(act_id)
    except acts.ActRefused:
        raise Http404(_("There is no act {act_id}.").format(act_id=act_id)) from None


def _apply_form(view: ActView, data: QueryDict | None = None) -> ApplyForm:
    return ApplyForm(
        data,
        kind=view.kind,
        plan=view.plan,
        name=view.subscription or short_name(view.topic),
        needs_reason=view.needs_reason,
    )


def _to_apply(view: ActView) -> ActView | None:
    if view.state == "planned":
        return view
    if view.new_plan is None:
        return None
    new_plan = _get(view.new_plan)
    return new_plan if new_plan.state == "planned" else None


def _second_person(view: ActView | None, rights: Rights) -> dict[str, object]:
    if view is None or not view.needs_second_person:
        return {}
    since = view.finished_at or view.requested_at
    waits_s = max(SECOND_PERSON_S, broker_settings().plan_expiry_s)
    is_own, role = view.who == rights.name, role_for(view.kind)
    namespaces = [namespace_of(name) for name in _names(view)]
    return {
        "is_own": is_own,
        "is_by_user": is_user(view.origin),
        "planner": view.who,
        "until": since + timedelta(seconds=waits_s),
        "role": role.label,
        "namespace": namespaces[0],
        "others": others_with(role, namespaces, without=rights.name) if is_own else (),
    }


def _past(view: ActView) -> str:
    is_deletion = view.kind.startswith("delete_") or view.kind in DELETING_SUBSCRIPTIONS
    if view.finished_at is None or "://" not in view.topic or is_deletion:
        return ""
    # A subscription on several partitions has a separate history on each partition.
    subscription = "" if (view.result or {}).get("partitions") else view.subscription
    return f"{past_url(view.topic, subscription)}?at={in_utc(int(view.finished_at.timestamp() * 1000))}"


def _answer(
    request: HttpRequest,
    rights: Rights,
    view: ActView,
    form: ApplyForm | None = None,
    *,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    to_apply = _to_apply(view)
    is_followed = view.is_waiting or view.state == "applying" or view.needs_second_person
    context = {
        "act": view,
        "to_apply": to_apply,
        "form": form or _apply_form(to_apply or view),
        "refusal": refusal,
        "is_waiting": view.is_waiting,
        "is_applying": view.state == "applying",
        "past": _past(view),
        "error": refusal_in_form(view),
        "form_address": form_address(view) if view.state == "refused" else "",
        "same": same_act(view, request.build_absolute_uri(api_url())),
        "second_person": _second_person(to_apply, rights),
        "address": request.build_absolute_uri(reverse("console:act", args=[(to_apply or view).id])),
        "may_act": all(rights.may_act_on(name, view.kind) for name in _names(view)),
        "nav": "acts",
    }
    source = Source(
        name="state",
        template="console/parts/act/state.html",
        live=(f"act:{view.id}",) if is_followed else (),
        context=lambda: {
            **context,
            "is_running": chrome().broker_runs,
            "expiry_s": broker_settings().act_expiry_s,
        },
    )
    response = answer(request, rights, "console/pages/act.html", [source], context, status=status)
    is_settled = not (view.is_waiting or view.state == "applying")
    if "part" in request.GET and is_settled and response.status_code != 304:
        response["HX-Refresh"] = "true"  # Reload the page: the buttons are outside the refreshed block
    return response
