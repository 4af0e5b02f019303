"""Store the user in the session between the password and the second factor."""

from __future__ import annotations

import time
from typing import Final

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

__all__ = ["begin", "complete", "half_logged_in"]

LASTS_S: Final = 600

_KEY: Final = "half_login"


def begin(request: HttpRequest, user: User, next_page: str) -> None:
    """Store the user and the page that opens after the login."""
    request.session.cycle_key()
    request.session[_KEY] = {
        "user": user.pk,
        "backend": user.backend,
        "password": user.get_session_auth_hash(),
        "until_s": time.time() + LASTS_S,
        "next": next_page,
    }


def half_logged_in(request: HttpRequest) -> User | None:
    """Return the user who gave the right password in the last ten minutes, or None.

    Returns None if the user was deactivated or the password was changed.
    """
    kept = request.session.get(_KEY)
    if kept is None or time.time() > kept["until_s"]:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not constant_time_compare(user.get_session_auth_hash(), kept["password"]):
        return None
    return user


def complete(request: HttpRequest, user: User) -> str:
    """Log in the user that `half_logged_in` returned. Return the page to open, or "" for the overview."""
    kept = request.session.pop(_KEY)
    login(request, user, backend=kept["backend"])
    return str(kept["next"])
