"""The page on which users change their own password and time zone."""

from __future__ import annotations

from typing import cast

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from broker.conf import broker_settings
from console.access import Rights
from console.access.changes import ChangeRefused
from console.access.guards import logged_in
from console.access.users import set_password
from console.blocks import page
from console.origin import origin_of
from console.people.failures import count_failure, may_try
from console.people.preferences import set_zone
from console.people.second_factor import factor_of
from console.people.zones import zone_names
from console.views.people.forms import WRONG, OwnPasswordForm, ZoneForm
from console.views.post_only import post_only
from console.words.numerals import zone_name

__all__ = ["account", "set_own_password", "set_own_zone"]

_DONE = {
    "password": gettext_noop("Your password has changed. Your other sessions have ended."),
    "factor_off": gettext_noop("You no longer have a second factor: you log in with your password alone."),
    "zone": gettext_noop("Pages now show times in this zone, and read times that you write in it."),
}


@require_safe
@logged_in
def account(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the user's own account."""
    return _answer(request, rights)


@sensitive_post_parameters("old", "new", "again")
@post_only("console:account")
@logged_in
def set_own_password(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Set the user's own password, and end the user's other sessions."""
    user = cast("User", request.user)
    if not may_try(request, user):
        return HttpResponse(status=429)
    form = OwnPasswordForm(request.POST, user=user)
    if not form.is_valid():
        if form.has_error("old", WRONG):
            count_failure(request, user)
        return _answer(request, rights, form=form, status=422)
    try:
        set_password(rights.name, form.cleaned_data["new"], who=rights.name, origin=origin_of(request))
    except ChangeRefused as refused:
        return _answer(request, rights, form=form, refusal=str(refused), status=409)
    user.refresh_from_db(fields=["password"])
    update_session_auth_hash(request, user)
    return redirect(f"{reverse('console:account')}?done=password")


@post_only("console:account")
@logged_in
def set_own_zone(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Set the time zone of the user's pages."""
    form = ZoneForm(request.POST)
    if not form.is_valid():
        return _answer(request, rights, refusal=str(form.errors["zone"][0]), status=422)
    set_zone(cast("User", request.user), form.cleaned_data["zone"])
    return redirect(f"{reverse('console:account')}?done=zone")


def _answer(
    request: HttpRequest,
    rights: Rights,
    *,
    form: OwnPasswordForm | None = None,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    user = cast("User", request.user)
    context = {
        "form": form,
        "refusal": refusal,
        "done": _(_DONE.get(request.GET.get("done", ""), "")),
        "zones": zone_names(),
        "chosen_zone": zone_name(),
        "has_password": user.has_usable_password() and (broker_settings().local_login or user.is_superuser),
        "has_second_factor": factor_of(user) is not None,
        "nav": "account",
    }
    return page(request, rights, "console/pages/account.html", context, status=status)
