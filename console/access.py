"""Who may do what: everyone logged in can look; staff and the group `operator` can read payloads and act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Concatenate, ParamSpec, cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

__all__ = ["OPERATOR_GROUP", "Rights", "operator_only", "rights_of", "viewer"]

OPERATOR_GROUP = "operator"

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What one user may do on the pages."""

    name: str  # as the act log writes it
    may_act: bool  # plan, apply and undo acts
    may_see_payloads: bool  # message bodies, keys and properties

    @property
    def role(self) -> str:
        """One word for the header and for what a cached block depends on."""
        return "operator" if self.may_act else "viewer"


def rights_of(user: AbstractBaseUser | AnonymousUser) -> Rights:
    """Return the rights of a logged-in user. Costs one query unless the user is staff."""
    person = cast("User", user)
    trusted = person.is_staff or person.groups.filter(name=OPERATOR_GROUP).exists()
    return Rights(name=person.get_username(), may_act=trusted, may_see_payloads=trusted)


def viewer(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let only logged-in users in. The view receives the user's rights after the request."""

    def authorised(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return view(request, rights_of(request.user), *args, **kwargs)

    return update_wrapper(authorised, view)


def operator_only(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let only users in who may act. Raises PermissionDenied (403) for a viewer."""

    def checked(
        request: HttpRequest, rights: Rights, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not rights.may_act:
            raise PermissionDenied("Only staff and members of the group “operator” may move a cursor.")
        return view(request, rights, *args, **kwargs)

    return viewer(update_wrapper(checked, view))
