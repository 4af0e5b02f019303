"""Store the user's theme in a cookie."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from console.blocks import THEME_COOKIE, THEMES

__all__ = ["theme"]

_YEAR_S = 365 * 24 * 3600


@login_not_required
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Set the cookie, and redirect to the page in `next`."""
    back = request.POST.get("next", "")
    if not back.startswith("/") or not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = "/"
    response = HttpResponseRedirect(back)
    asked = request.POST.get("to", "")
    if asked in THEMES:
        response.set_cookie(THEME_COOKIE, asked, max_age=_YEAR_S, samesite="Lax", secure=request.is_secure())
    return response
