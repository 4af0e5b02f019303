"""The page on which users change their own second factor."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.access import Rights
from console.access.changes import ChangeRefused
from console.access.factors import add_factor, remove_factor, renew_codes
from console.access.guards import logged_in
from console.blocks import page
from console.origin import origin_of
from console.people.failures import count_failure, may_try
from console.people.offered_secret import forget, offer, offered
from console.people.requirement import is_required
from console.people.second_factor import FactorRefused, accepts, factor_of
from console.views.post_only import post_only
from console.words.codes import NO_FACTOR, WRONG_CODE, WRONG_PASSWORD

__all__ = ["own_second_factor", "remove_own_second_factor", "renew_own_recovery_codes"]


@sensitive_post_parameters("password", "code")
@require_http_methods(["GET", "HEAD", "POST"])
@logged_in
def own_second_factor(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the second factor, or set one up.

    A new second factor ends the user's other sessions, because those sessions began without a code.
    """
    if request.method != "POST":
        return _answer(request, rights)
    user = cast("User", request.user)
    if not may_try(request, user):
        return HttpResponse(status=429)
    password = request.POST.get("password", "")
    if not user.check_password(password):
        count_failure(request, user)
        return _answer(request, rights, refusal=_(WRONG_PASSWORD))
    try:
        codes = add_factor(user, offered(request), request.POST.get("code", ""), origin=origin_of(request))
    except FactorRefused as refused:
        return _answer(request, rights, refusal=str(refused))
    forget(request)
    user.set_password(password)  # A new salt ends the user's other sessions
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    return _answer(request, rights, codes=codes)


@sensitive_post_parameters("code")
@post_only("console:own_second_factor")
@logged_in
def renew_own_recovery_codes(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Replace the recovery codes, and show the new codes."""
    return _proved(request, rights) or _answer(
        request, rights, codes=renew_codes(cast("User", request.user), origin=origin_of(request))
    )


@sensitive_post_parameters("code")
@post_only("console:own_second_factor")
@logged_in
def remove_own_second_factor(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Switch the second factor off."""
    if refused := _proved(request, rights):
        return refused
    try:
        remove_factor(rights.name, who=rights.name, origin=origin_of(request))
    except ChangeRefused:  # Another request has just removed the second factor
        return _answer(request, rights, refusal=_(NO_FACTOR))
    return redirect(f"{reverse('console:account')}?done=factor_off")


def _proved(request: HttpRequest, rights: Rights) -> HttpResponse | None:
    user = cast("User", request.user)
    if factor_of(user) is None:
        return _answer(request, rights, refusal=_(NO_FACTOR))
    if not may_try(request, user):
        return HttpResponse(status=429)
    if accepts(user, request.POST.get("code", "")):
        return None
    count_failure(request, user)
    return _answer(request, rights, refusal=_(WRONG_CODE))


def _answer(
    request: HttpRequest, rights: Rights, *, refusal: str = "", codes: list[str] | None = None
) -> HttpResponse:
    user = cast("User", request.user)
    factor = factor_of(user)
    context: dict[str, Any] = {
        "factor": factor,
        "refusal": refusal,
        "codes": codes,
        "has_password": user.has_usable_password(),
        "is_required": is_required(user),
        "nav": "account",
    }
    if factor is None and user.has_usable_password() and not rights.is_read_only:
        context |= offer(request, user)
    status = 422 if refusal else 200
    return page(request, rights, "console/pages/own_second_factor.html", context, status=status)
