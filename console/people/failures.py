"""Count wrong codes and passwords as failed logins if django-axes is installed."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest

__all__ = ["count_failure", "may_try"]


def may_try(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Return whether this user may try a code or password. If the user may not, AxesMiddleware answers 429."""
    if not apps.is_installed("axes"):
        return True
    from axes.handlers.proxy import AxesProxyHandler  # This import fails unless axes is in INSTALLED_APPS

    if AxesProxyHandler.is_allowed(request, {"username": user.get_username()}):
        return True
    request.axes_locked_out = True  # type: ignore[attr-defined]  # AxesMiddleware reads this
    return False


def count_failure(request: HttpRequest, user: AbstractBaseUser) -> None:
    """Count a failure for the user's name and the client's address."""
    user_login_failed.send(sender=__name__, credentials={"username": user.get_username()}, request=request)
