"""Login at the OpenID Connect server that VELA_OIDC_ISSUER names."""

from __future__ import annotations

import logging

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from broker.conf import broker_settings
from broker.login_settings import LoginSettings
from console.blocks import frame
from console.oidc.errors import LoginRefused, ServerAway
from console.oidc.flow import come_back, way_there
from console.oidc.person import groups_in, user_of
from console.origin import origin_of
from console.people.logins import BACKEND
from console.people.no_role import explain

__all__ = ["begin_oidc", "end_oidc"]

log = logging.getLogger(__name__)


@login_not_required
@never_cache
@require_GET
def begin_oidc(request: HttpRequest) -> HttpResponse:
    """Send the browser to the login server."""
    settings = _settings()
    wanted = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    try:
        return redirect(
            way_there(request, settings, back=_back(request), next_page=wanted if is_ours else "")
        )
    except ServerAway as away:
        return _away(request, settings, away)


@login_not_required
@never_cache
@require_GET
def end_oidc(request: HttpRequest) -> HttpResponse:
    """Log in a user who comes back from the login server."""
    settings = _settings()
    try:
        arrival = come_back(request, settings, back=_back(request))
        user = user_of(arrival.claims, settings, origin=origin_of(request))
    except ServerAway as away:
        return _away(request, settings, away)
    except LoginRefused as refused:
        with override("en"):
            cause = str(refused.__cause__ or refused)
        log.info("a login at %s was refused: %r", settings.oidc_issuer, cause)
        return _answer(request, settings, 403, reason=str(refused))
    login(request, user, backend=BACKEND)
    request.session.set_expiry(settings.oidc_session_hours * 3600)
    explain(request, user.get_username(), groups_in(arrival.claims, settings), settings)
    return redirect(arrival.next_page or "console:home")


def _settings() -> LoginSettings:
    settings = broker_settings()
    if not settings.oidc_issuer:
        raise Http404
    return settings


def _back(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("console:end_oidc"))


def _away(request: HttpRequest, settings: LoginSettings, away: ServerAway) -> HttpResponse:
    log.error("nobody can log in at %s: %s", settings.oidc_issuer, away)
    return _answer(request, settings, 503, reason="")


def _answer(request: HttpRequest, settings: LoginSettings, status: int, *, reason: str) -> HttpResponse:
    context = {**frame(request), "reason": reason, "name": settings.oidc_name}
    return render(request, "console/pages/login_refused.html", context, status=status)
