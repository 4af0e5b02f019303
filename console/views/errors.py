"""Answer errors with JSON under `/api/v1`, and with pages elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connections
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from console.access import Rights, rights_of
from console.addresses import is_api_path
from console.api.problems import Problem, database_problem, is_database_away, no_such_address
from console.blocks import frame, surroundings
from console.people.preferences import use_preferences_of
from pipeline.errors import OffloadUnavailable

__all__ = ["bad_request", "failed", "not_allowed", "not_found", "not_trusted"]

_FOREIGN: Final = ("Origin checking failed", "Referer checking failed")  # First words of CSRF errors


@contextmanager
def _returning_connections() -> Iterator[None]:
    """Close the database connections that this thread opens while it answers an error.

    Django's ASGI handler answers errors in a shared thread, and does not close that thread's connections.
    """
    kept = [each for each in connections.all(initialized_only=True) if each.connection is not None]
    try:
        yield
    finally:
        for each in connections.all(initialized_only=True):
            if each not in kept:
                each.close()


@_returning_connections()
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 400 with the exception's text."""
    trouble = str(exception or "") or _("The server cannot read this request.")
    if is_api_path(request.path):
        return Problem(400, "BadRequest", trouble).response()
    return _answer(request, "400.html", 400, {"trouble": trouble})


@_returning_connections()
def not_allowed(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 403 with the exception's text."""
    reason = str(exception or "") or _("You may not do this.")
    if is_api_path(request.path):
        return Problem(403, "AuthorizationError", reason).response()
    return _answer(request, "403.html", 403, {"exception": reason})


def not_trusted(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer 403 to a form that fails Django's CSRF check."""
    _use_own_language(request)
    if reason.startswith(_FOREIGN):
        said = _(
            "This form did not come from a page of this console, or a proxy changes the console's address."
            " An administrator can add the address in your browser to VELA_CSRF_TRUSTED_ORIGINS."
        )
    else:
        said = _(
            "This page is older than your login, or your browser keeps no cookies. Load it again, and try again."
        )
    return not_allowed(request, PermissionDenied(said))


@_returning_connections()
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 404."""
    if is_api_path(request.path):
        return no_such_address(request)
    _use_own_language(request)
    said = exception.args[0] if exception is not None and exception.args else ""
    reason = (
        said if isinstance(said, str) and said else _("There is no page at {path}.").format(path=request.path)
    )
    return _answer(request, "404.html", 404, {"exception": reason})


@_returning_connections()
def failed(request: HttpRequest) -> HttpResponse:
    """Answer 503 if the database fails temporarily or an offloaded ledger cannot be read, else 500."""
    error = sys.exc_info()[1]
    is_away = is_database_away(error)
    trouble = str(error) if isinstance(error, OffloadUnavailable) else ""
    status = 503 if is_away or trouble else 500
    if is_api_path(request.path):
        if trouble:
            return Problem(503, "PersistenceError", trouble, retriable=True).response()
        return database_problem(error).response()
    # Without a database, the menu's queries would fail too.
    return _answer(
        request, "500.html", status, {"database_is_away": is_away, "trouble": trouble}, has_menu=not is_away
    )


def _answer(
    request: HttpRequest, template: str, status: int, context: dict[str, Any], *, has_menu: bool = True
) -> HttpResponse:
    around: dict[str, Any] = {}
    if has_menu and (rights := _rights(request)) is not None:
        try:
            around = surroundings(rights) if rights.sees_anything else {"rights": rights}
        except DatabaseError:
            around = {"rights": rights}
    return render(request, template, {**frame(request), **around, **context}, status=status)


def _use_own_language(request: HttpRequest) -> None:
    """Use the user's language. The middleware sets the language only for a request that reaches a view."""
    with suppress(DatabaseError):
        if not is_api_path(request.path) and request.user.is_authenticated:
            use_preferences_of(request.user)


def _rights(request: HttpRequest) -> Rights | None:
    user = getattr(request, "user", None) or AnonymousUser()
    try:
        return rights_of(user) if user.is_authenticated else None
    except DatabaseError:
        return None
