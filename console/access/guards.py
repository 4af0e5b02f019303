"""Check a user's rights before a view runs.

An act is a change that the broker makes on request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Concatenate, Final, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.access.rights import Rights, rights_of
from console.access.roles import EVERYTHING, namespace_of, role_for
from console.models import Role
from console.people.no_role import why_no_role

__all__ = [
    "READ_ONLY",
    "SAFE",
    "admin_everywhere_only",
    "admin_only",
    "check_may_act",
    "logged_in",
    "operator_only",
    "place_in",
    "refusal_of",
    "viewer",
]

READ_ONLY: Final = gettext_noop(
    "This console is read-only. To allow changes, an administrator can start the console without"
    " VELA_CONSOLE_READ_ONLY."
)
SAFE: Final = ("GET", "HEAD", "OPTIONS")

P = ParamSpec("P")


def place_in(names: Mapping[str, object]) -> str:
    """Return the topic or namespace in a URL's arguments. Return "" if the URL has neither."""
    topic = names.get("topic")
    if isinstance(topic, str):
        return topic
    if "tenant" in names and "namespace" in names:
        return f"{names['tenant']}/{names['namespace']}"
    return ""


def check_may_act(rights: Rights, name: str, kind: str) -> None:
    """Raise PermissionDenied unless the user may request acts of this kind on this topic or namespace."""
    if rights.is_read_only:
        raise PermissionDenied(_(READ_ONLY))
    if not rights.may_act_on(name, kind):
        raise PermissionDenied(refusal_of(name, kind))


def refusal_of(name: str, kind: str) -> str:
    """Return the sentence that says which role an act of this kind needs."""
    return _("You need the {role} role for {place}.").format(
        role=role_for(kind).label, place=namespace_of(name)
    )


def viewer(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Admit users who may see the topic or namespace in the URL. Raises Http404 for other users.

    If the URL has no topic and no namespace, raises PermissionDenied for users without a role. Also raises
    PermissionDenied for changes while the console is read-only.
    """

    def authorised(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        place = place_in(kwargs)
        rights = rights_of(request.user).at(place)
        if place and rights.here is None:
            missing = _("There is no topic {name}.") if "://" in place else _("There is no namespace {name}.")
            raise Http404(missing.format(name=place))
        if not rights.sees_anything:
            raise PermissionDenied(why_no_role(request))
        if rights.is_read_only and request.method not in SAFE:
            raise PermissionDenied(_(READ_ONLY))
        return view(request, rights, *args, **kwargs)

    return update_wrapper(authorised, view)


def logged_in(
    view: Callable[[HttpRequest, Rights], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Admit every logged-in user. Raises PermissionDenied for changes while the console is read-only."""

    def authorised(request: HttpRequest) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        rights = rights_of(request.user)
        if rights.is_read_only and request.method not in SAFE:
            raise PermissionDenied(_(READ_ONLY))
        return view(request, rights)

    return update_wrapper(authorised, view)


def operator_only(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Admit operators and admins of the namespace in the URL.

    If the URL has no namespace, admit operators and admins of any namespace. Runs the checks of `viewer` first.
    Raises PermissionDenied for users with a lower role, and for every request while the console is read-only.
    """
    return _at_least(Role.OPERATOR, view)


def admin_only(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Admit admins of the namespace in the URL.

    If the URL has no namespace, admit admins of any namespace. Runs the checks of `viewer` first. Raises
    PermissionDenied for users with a lower role, and for every request while the console is read-only.
    """
    return _at_least(Role.ADMIN, view)


def _at_least(
    role: Role, view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase]
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:

    def checked(
        request: HttpRequest, rights: Rights, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if rights.is_read_only:
            raise PermissionDenied(_(READ_ONLY))
        if (rights.here or 0) < role:
            if rights.place:
                raise PermissionDenied(
                    _("You need the {role} role for {place}.").format(role=role.label, place=rights.place)
                )
            raise PermissionDenied(_("You need the {role} role.").format(role=role.label))
        return view(request, rights, *args, **kwargs)

    return viewer(update_wrapper(checked, view))


def admin_everywhere_only(
    view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Admit only users with the admin role for every namespace. Runs the checks of `viewer` first."""

    def checked(
        request: HttpRequest, rights: Rights, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not rights.is_admin():
            raise PermissionDenied(
                _("You need the {role} role for {place}.").format(role=Role.ADMIN.label, place=EVERYTHING)
            )
        return view(request, rights, *args, **kwargs)

    return viewer(update_wrapper(checked, view))
