"""An admin's changes to a user.

Each view answers 422 if a field is wrong, 409 if the change is refused, and 404 for an unknown user.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.access import Rights, admin_everywhere_only
from console.access.changes import ChangeRefused
from console.access.factors import remove_factor
from console.access.granting import set_role
from console.access.users import made_password, set_active, set_password
from console.origin import origin_of
from console.views.people.forms import ActiveForm, PasswordForm, RoleForm
from console.views.people.show import show_user
from console.views.post_only import post_only

__all__ = ["remove_user_factor", "set_user_active", "set_user_password", "set_user_role"]


@post_only("console:user", "name")
@admin_everywhere_only
def set_user_password(request: HttpRequest, rights: Rights, name: str) -> HttpResponse:
    """Set the typed password, or make a new password and show it once."""
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _invalid(request, rights, name, form)
    typed = form.cleaned_data["password"]
    password = typed or made_password()
    try:
        set_password(name, password, who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return show_user(request, rights, name, refusal=str(refused), status=409)
    return _back(name, "password") if typed else show_user(request, rights, name, password=password)


@post_only("console:user", "name")
@admin_everywhere_only
def set_user_role(request: HttpRequest, rights: Rights, name: str) -> HttpResponse:
    """Give the user a role in the namespaces that match a pattern, or take the role away."""
    form = RoleForm(request.POST)
    if not form.is_valid():
        return _invalid(request, rights, name, form)
    pattern, role = form.cleaned_data["pattern"], form.chosen()
    try:
        set_role(name, pattern, role, who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return show_user(request, rights, name, refusal=str(refused), given={"pattern": pattern}, status=409)
    # The admin may have just lost access to this page.
    is_own = name == rights.name and pattern == "*" and not rights.is_superuser
    return redirect("console:home") if is_own else _back(name, "role")


@post_only("console:user", "name")
@admin_everywhere_only
def set_user_active(request: HttpRequest, rights: Rights, name: str) -> HttpResponse:
    """Allow or forbid the user to log in."""
    form = ActiveForm(request.POST)
    if not form.is_valid():
        return _invalid(request, rights, name, form)
    is_active = form.cleaned_data["active"] == "yes"
    try:
        set_active(name, is_active, who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return show_user(request, rights, name, refusal=str(refused), status=409)
    return _back(name, "active" if is_active else "inactive")


@post_only("console:user", "name")
@admin_everywhere_only
def remove_user_factor(request: HttpRequest, rights: Rights, name: str) -> HttpResponse:
    """Remove the user's second factor."""
    try:
        remove_factor(name, who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return show_user(request, rights, name, refusal=str(refused), status=409)
    return _back(name, "factor")


def _invalid(request: HttpRequest, rights: Rights, name: str, form: forms.Form) -> HttpResponse:
    said = " ".join(str(error) for errors in form.errors.values() for error in errors)
    given = {"pattern": str(form.data.get("pattern", ""))}
    return show_user(request, rights, name, refusal=said, given=given, status=422)


def _back(name: str, done: str) -> HttpResponse:
    return redirect(f"{reverse('console:user', args=[name])}?{urlencode({'done': done})}")
