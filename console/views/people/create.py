"""The form that creates a user."""

from __future__ import annotations

from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import Rights, admin_everywhere_only
from console.access.changes import ChangeRefused
from console.access.granting import set_role
from console.access.users import create_user, made_password
from console.blocks import page
from console.models import Role
from console.origin import origin_of
from console.views.people.forms import NewUserForm
from console.views.people.show import show_user

__all__ = ["new_user"]


@require_http_methods(["GET", "HEAD", "POST"])
@admin_everywhere_only
def new_user(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the form, or create the user."""
    if request.method != "POST":
        return _answer(request, rights, NewUserForm(initial={"name": request.GET.get("name", "")}))
    form = NewUserForm(request.POST)
    if not form.is_valid():
        return _answer(request, rights, form, status=422)
    name, typed = form.cleaned_data["name"], form.cleaned_data["password"]
    password = typed or made_password()
    try:
        with transaction.atomic():  # If the role is refused, create no user
            create_user(name, password, who=rights.name, origin=origin_of(request))
            given = form.chosen()
            if given is not None:
                set_role(name, *given, who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return _answer(request, rights, form, refusal=str(refused), status=409)
    if not typed:
        return show_user(request, rights, name, password=password)
    done = "without_role" if given is None else "created"
    return redirect(f"{reverse('console:user', args=[name])}?{urlencode({'done': done})}")


def _answer(
    request: HttpRequest, rights: Rights, form: NewUserForm, *, refusal: str = "", status: int = 200
) -> HttpResponse:
    context = {"form": form, "refusal": refusal, "roles": [role.word for role in Role], "nav": "users"}
    return page(request, rights, "console/pages/new_user.html", context, status=status)
