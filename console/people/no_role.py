"""What a user without a role is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.http import HttpRequest

from broker.login_settings import LoginSettings

__all__ = ["NO_ROLE", "explain", "why_no_role"]

NO_ROLE: Final = "You have no role yet, so there is nothing to show. An administrator can give you one."

_KEY: Final = "no_role"
_MOST_GROUPS: Final = 20


def explain(request: HttpRequest, name: str, groups: Sequence[str], settings: LoginSettings) -> None:
    """Keep in the session what a user who logged in at the login server should ask for without a role."""
    shown = ", ".join(each[:100] for each in groups[:_MOST_GROUPS]) or "none"
    request.session[_KEY] = (
        f"You have no role yet, so there is nothing to show. Your name here is {name}, and your groups at"
        f" {settings.oidc_name} are: {shown}. Ask an administrator of Vela which group gives a role, or for a role"
        " on the page Users. A change of your groups counts at your next login."
    )


def why_no_role(request: HttpRequest) -> str:
    """Return what to tell a user without a role."""
    return str(request.session.get(_KEY, NO_ROLE))
