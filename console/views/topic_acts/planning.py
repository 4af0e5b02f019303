"""Plan the act that a form describes. An act is a change that the broker makes on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from broker.acts import requests as acts
from console.access import Rights, plan
from console.blocks import page
from console.forms import ActForm

__all__ = ["answer_form", "prefilled"]


def prefilled(request: HttpRequest, form_class: type[ActForm]) -> dict[str, Any]:
    """Return the form's initial values from the query string."""
    return {name: request.GET[name] for name in form_class.base_fields if name in request.GET}


def answer_form(
    request: HttpRequest,
    rights: Rights,
    form: ActForm,
    *,
    about: str,
    template: str,
    context: Mapping[str, Any],
) -> HttpResponse:
    """Show the form, or plan the act and redirect to the plan's page.

    `about` names a topic or a namespace. Raises PermissionDenied if the user may not plan the act.
    """
    status, refusal = 200, ""
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                view = plan(request, rights, form.kind, topic=about, parameters=form.parameters())
            except acts.ActRefused as refused:
                status, refusal = 409, refused.text
            else:
                return redirect("console:act", view.id)
    return page(
        request,
        rights,
        template,
        {"form": form, "refusal": refusal, "nav": "topics", **context},
        status=status,
    )
