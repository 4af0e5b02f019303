"""One act from plan to undo: the exact preview, the receipt, or why it waits or was refused."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from broker.conf import broker_settings
from broker.service import acts
from broker.service.acts import ActView
from console.access import Rights, operator_only, viewer
from console.act_words import must_type_name
from console.blocks import Source, answer, broker_is_running
from console.forms import ApplyForm
from console.origin import origin_of

__all__ = ["act", "apply", "undo"]


@require_safe
@viewer
def act(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Its present state; a waiting act's page says what it waits for and comes back by itself."""
    return _answer(request, rights, _found(act_id), ApplyForm(typed_name=None))


@require_POST
@operator_only
def apply(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Apply a plan. 422 without the name where it must be typed, 409 when the broker refuses."""
    view = _found(act_id)
    form = ApplyForm(request.POST, typed_name=view.subscription if must_type_name(view.plan) else None)
    if not form.is_valid():
        return _answer(request, rights, view, form, status=422)
    try:
        acts.apply(act_id, who=rights.name, origin=origin_of(request), reason=form.cleaned_data["reason"])
    except acts.ActRefused as refused:
        return _answer(request, rights, _found(act_id), form, refusal=refused.text, status=409)
    return redirect("console:act", act_id)


@require_POST
@operator_only
def undo(request: HttpRequest, rights: Rights, act_id: int) -> HttpResponse:
    """Plan the undoing of an applied act: an act of its own, with its own preview."""
    view = _found(act_id)
    try:
        planned = acts.plan_undo(act_id, who=rights.name, origin=origin_of(request))
    except acts.ActRefused as refused:
        form = ApplyForm(typed_name=None)
        return _answer(request, rights, view, form, refusal=refused.text, status=409)
    return redirect("console:act", planned.id)


def _found(act_id: int) -> ActView:
    try:
        return acts.get(act_id)
    except acts.ActRefused as refused:
        raise Http404(refused.text) from None


def _answer(
    request: HttpRequest,
    rights: Rights,
    view: ActView,
    form: ApplyForm,
    *,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "act": view,
        "form": form,
        "refusal": refusal,
        "is_waiting": view.is_waiting,
        "must_type_name": must_type_name(view.plan),
        "can_undo": view.state == "applied" and view.undo_until is not None and view.undo_until > now(),
        "nav": "acts",
    }
    source = Source(
        name="state",
        template="console/parts/act/state.html",
        live=(f"act:{view.id}",) if view.is_waiting else (),
        context=lambda: {
            **context,
            "is_running": broker_is_running(),
            "expiry_s": broker_settings().act_expiry_s,
        },
    )
    return answer(request, rights, "console/pages/act.html", [source], context, status=status)
