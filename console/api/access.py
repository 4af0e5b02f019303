"""Who may call: a person's session with its CSRF token, or the same person by HTTP Basic with JSON.

A page of another site can make a browser send a session cookie, or Basic credentials that it remembers, but it cannot
send JSON, nor the token, without this site's consent. So Basic needs a JSON body on everything that changes something,
and a session needs the token.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec

import psycopg
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.csrf import csrf_exempt

from console.access import Rights, rights_of
from console.api.basic import ASK_FOR_BASIC, user_by_password
from console.api.problems import Problem

__all__ = ["api", "body_of"]

P = ParamSpec("P")
log = logging.getLogger(__name__)

_SAFE = ("GET", "HEAD")


class _Csrf(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        raise Problem(
            403, "CsrfFailed", f"{reason} Send the cookie's token as X-CSRFToken, or use HTTP Basic."
        )


def api(
    *methods: str, acts: bool = False, payloads: bool = False
) -> Callable[
    [Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase]],
    Callable[Concatenate[HttpRequest, P], HttpResponseBase],
]:
    """A view that answers these methods with JSON, and everything that goes wrong with a problem document.

    `acts`: only for who may act; `payloads`: only for who may see what is in messages.
    """

    def decorate(
        view: Callable[Concatenate[HttpRequest, Rights, P], HttpResponseBase],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
        def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            try:
                if request.method not in methods:
                    allowed = {"Allow": ", ".join(methods)}
                    raise Problem(
                        405, "MethodNotAllowed", f"use {' or '.join(methods)} here", headers=allowed
                    )
                rights = _rights(request)
                if (acts and not rights.may_act) or (payloads and not rights.may_see_payloads):
                    raise Problem(
                        403, "AuthorizationError", "only staff and members of the group operator may do this"
                    )
                return view(request, rights, *args, **kwargs)
            except Problem as problem:
                return problem.response()
            except (DatabaseError, psycopg.Error):
                log.exception("%s %s", request.method, request.path)
                return Problem(
                    503, "PersistenceError", "the database did not answer; try again", retriable=True
                ).response()

        return csrf_exempt(login_not_required(update_wrapper(answered, view)))

    return decorate


def body_of(request: HttpRequest) -> dict[str, Any]:
    """The JSON object that was sent, {} when nothing was. Raises Problem."""
    try:
        raw = request.body
    except RequestDataTooBig as error:
        raise Problem(413, "TooLarge", "a request of this size is no act") from error
    if not raw:
        return {}
    if request.content_type != "application/json":
        raise Problem(415, "NotJson", "send Content-Type: application/json")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "NotJson", f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Problem(400, "NotJson", "the body is not a JSON object")
    return body


def _rights(request: HttpRequest) -> Rights:
    header = request.headers.get("Authorization", "")
    if header:
        rights = rights_of(user_by_password(request, header))
        if request.method not in _SAFE and request.content_type != "application/json":
            raise Problem(415, "NotJson", "send Content-Type: application/json")
        return rights
    if not request.user.is_authenticated:
        raise Problem(
            401, "AuthenticationError", "log in, or send HTTP Basic credentials", headers=ASK_FOR_BASIC
        )
    if request.method not in _SAFE:
        check = _Csrf(lambda _: HttpResponse())
        check.process_request(request)
        check.process_view(request, answered_by_api, (), {})
    return rights_of(request.user)


def answered_by_api(_: HttpRequest) -> HttpResponse:
    """What the CSRF check is told that it protects: not exempt, unlike the view itself. Never called."""
    return HttpResponse()
