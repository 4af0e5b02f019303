"""The login page that sets up a required second factor."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from broker.conf import broker_settings
from console.access.factors import add_factor
from console.access.guards import READ_ONLY
from console.blocks import frame
from console.origin import origin_of
from console.people import half_login
from console.people.offered_secret import forget, offer, offered
from console.people.requirement import AfterPassword, after_password
from console.people.second_factor import FactorRefused

__all__ = ["login_second_factor"]


@login_not_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def login_second_factor(request: HttpRequest) -> HttpResponse:
    """Show the QR code, or check the first code of the authenticator app and log in.

    Raises PermissionDenied for a POST to a read-only console.
    """
    if request.method == "POST" and broker_settings().console_read_only:
        raise PermissionDenied(_(READ_ONLY))
    user = half_login.half_logged_in(request)
    if user is None:
        return redirect("console:login")
    if after_password(user) is not AfterPassword.SET_UP:
        return redirect("console:login_code")
    refusal = ""
    if request.method == "POST":
        try:
            codes = add_factor(
                user, offered(request), request.POST.get("code", ""), origin=origin_of(request)
            )
        except FactorRefused as refused:
            refusal = str(refused)
        else:
            forget(request)
            target = half_login.complete(request, user) or reverse("console:home")
            context = {**frame(request), "codes": codes, "next": target}
            return render(request, "console/pages/login_recovery_codes.html", context)
    context = {
        **frame(request),
        **offer(request, user),
        "refusal": refusal,
        "is_read_only": broker_settings().console_read_only,
    }
    return render(request, "console/pages/login_second_factor.html", context, status=422 if refusal else 200)
