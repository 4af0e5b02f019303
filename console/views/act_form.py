"""Step one of an act: describe it. A valid description becomes a plan, which has its own page."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from broker.acts import requests as acts
from console.access import Rights, operator_only
from console.blocks import page
from console.forms import ActForm, act_forms
from console.origin import origin_of
from console.queries.subscription import subscription_head

__all__ = ["act_form"]


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def act_form(request: HttpRequest, rights: Rights, topic: str, name: str, kind: str) -> HttpResponse:
    """Show the form for one kind of act, filled in from the query string.

    422 if the form is invalid, 409 if the broker refuses to plan it.
    """
    form_class = act_forms.get(kind)
    head = subscription_head(topic, name)
    if form_class is None or head is None:
        raise Http404("There is no such act or subscription.")
    form = form_class(request.POST) if request.method == "POST" else _prefilled(form_class, request)
    status, refusal = 200, ""
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                view = acts.plan(
                    form_class.kind,
                    topic=topic,
                    subscription=name,
                    parameters=form.parameters(),
                    who=rights.name,
                    origin=origin_of(request),
                )
            except acts.ActRefused as refused:
                status, refusal = 409, refused.text
            else:
                return redirect("console:act", view.id)
    context = {
        "head": head,
        "form": form,
        "kind": kind,
        "kinds": act_forms,
        "refusal": refusal,
        "nav": "topics",
    }
    return page(request, rights, "console/pages/act_form.html", context, status=status)


def _prefilled(form_class: type[ActForm], request: HttpRequest) -> ActForm:
    """Return the empty form, with the values that a link to it gave in the address."""
    given = {name: request.GET[name] for name in form_class.base_fields if name in request.GET}
    return form_class(initial=given)
