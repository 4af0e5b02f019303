"""The second page of a login, which asks for a code from the authenticator app or for a recovery code."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.blocks import frame
from console.people import half_login
from console.people.failures import count_failure, may_try
from console.people.second_factor import accepts
from console.words.codes import WRONG_CODE

__all__ = ["login_code"]


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def login_code(request: HttpRequest) -> HttpResponse:
    """Ask for the code, or check the code and log in."""
    user = half_login.half_logged_in(request)
    if user is None:
        return redirect("console:login")
    refusal = ""
    if request.method == "POST":
        if not may_try(request, user):
            return HttpResponse(status=429)
        if accepts(user, request.POST.get("code", "")):
            return redirect(half_login.complete(request, user) or "console:home")
        count_failure(request, user)
        refusal = _(WRONG_CODE)
    context = {**frame(request), "name": user.get_username(), "refusal": refusal}
    return render(request, "console/pages/login_code.html", context, status=422 if refusal else 200)
