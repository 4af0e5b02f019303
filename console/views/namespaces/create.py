"""The form that creates a namespace."""

from __future__ import annotations

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from broker.acts import requests as acts
from console.access import Rights, admin_only, plan
from console.blocks import page

__all__ = ["new_namespace"]


class NamespaceForm(forms.Form):
    """The name of a new namespace."""

    name = forms.CharField(
        max_length=600, error_messages={"required": gettext_lazy("Give the name as tenant/namespace.")}
    )

    def clean_name(self) -> str:
        try:
            return acts.full_name("create_namespace", self.cleaned_data["name"])
        except acts.ActRefused as refused:
            raise ValidationError(refused.text) from None


@require_http_methods(["GET", "HEAD", "POST"])
@admin_only
def new_namespace(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the form, or plan the creation of the namespace."""
    if request.method != "POST":
        form = NamespaceForm(initial={"name": request.GET.get("name", "")})
        return _answer(request, rights, form)
    form = NamespaceForm(request.POST)
    if not form.is_valid():
        return _answer(request, rights, form, status=422)
    try:
        planned = plan(request, rights, "create_namespace", topic=form.cleaned_data["name"], parameters={})
    except acts.ActRefused as refused:
        return _answer(request, rights, form, refusal=refused.text, status=409)
    return redirect("console:act", planned.id)


def _answer(
    request: HttpRequest, rights: Rights, form: NamespaceForm, *, refusal: str = "", status: int = 200
) -> HttpResponse:
    context = {"form": form, "refusal": refusal, "nav": "namespaces"}
    return page(request, rights, "console/pages/new_namespace.html", context, status=status)
