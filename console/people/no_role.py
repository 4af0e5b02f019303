"""The text for a user without a role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from broker.login_settings import LoginSettings

__all__ = ["NO_ROLE", "explain", "why_no_role"]

NO_ROLE: Final = gettext_noop(
    "You have no role yet, so there is nothing to show. An administrator can give you one."
)

_KEY: Final = "no_role"
_MOST_GROUPS: Final = 20


def explain(request: HttpRequest, name: str, groups: Sequence[str], settings: LoginSettings) -> None:
    """Put the names of the user, the login server and the groups into the session."""
    request.session[_KEY] = {
        "name": name,
        "server": settings.oidc_name,
        "groups": ", ".join(each[:100] for each in groups[:_MOST_GROUPS]),
    }


def why_no_role(request: HttpRequest) -> str:
    """Return the text for a user without a role."""
    known = request.session.get(_KEY)
    if known is None:
        return _(NO_ROLE)
    return _(
        "You have no role yet, so there is nothing to show. Your name here is {name}, and your groups at"
        " {server} are: {groups}. Ask an administrator of Vela which group gives a role, or ask for a role"
        " on the page Users. A change of your groups takes effect at your next login."
    ).format(name=known["name"], server=known["server"], groups=known["groups"] or _("none"))
