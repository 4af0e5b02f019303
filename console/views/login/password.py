"""The first page of a login, which asks for name and password."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy

from broker.conf import broker_settings
from console.blocks import frame
from console.people import half_login
from console.people.requirement import AfterPassword, after_password

__all__ = ["Login"]


class _LoginForm(AuthenticationForm):
    # Django's text calls the field "username", and the page calls it "Name".
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": gettext_lazy("The name or the password is wrong. Upper and lower case matter."),
    }


class Login(LoginView):
    """Ask for name and password."""

    form_class = _LoginForm
    template_name = "console/pages/login.html"
    redirect_authenticated_user = True
    next_page = "console:home"

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        following = after_password(user)
        if following is AfterPassword.LOGIN:
            return super().form_valid(form)
        half_login.begin(self.request, user, self.get_redirect_url())
        return redirect(
            "console:login_code" if following is AfterPassword.CODE else "console:login_second_factor"
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """If VELA_LOCAL_LOGIN is 0, show the form only at `/login?password`."""
        settings = broker_settings()
        login_server = settings.oidc_name if settings.oidc_issuer else ""
        return {
            **super().get_context_data(**kwargs),
            **frame(self.request),
            "login_server": login_server,
            "asks_password": settings.local_login or "password" in self.request.GET,
        }
