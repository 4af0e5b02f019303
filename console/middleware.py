"""Middleware of every page: a strict content security policy, static files, login, refusal of unreadable requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from whitenoise.middleware import WhiteNoiseMiddleware

from console.addresses import is_api_path
from console.api.problems import Problem

__all__ = [
    "POLICY",
    "ContentSecurityPolicy",
    "LoginRequired",
    "ReadableRequests",
    "StaticFiles",
    "trouble_in",
]

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


class ContentSecurityPolicy:
    """Sets Content-Security-Policy and Referrer-Policy on responses that lack them."""

    sync_capable = True
    async_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self.get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        answer = self.get_response(request)
        return _later(answer) if isinstance(answer, Awaitable) else _with_policy(answer)


class ReadableRequests:
    """Answers 400 to a request that the console cannot read.

    Such a request has a Host that is not this console's, a NUL in a cookie or in the query string, or too many values
    in the query string. PostgreSQL cannot store a NUL in text, so every query with such a value would fail.
    """

    sync_capable = True
    async_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self.get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        trouble = _trouble_in_head(request)
        if not trouble:
            return self.get_response(request)
        refusal = _refusal(request, trouble)
        return _ready(refusal) if self._async else refusal

    def process_view(self, request: HttpRequest, *_: object) -> None:
        """Raise BadRequest for an unreadable query string. The user is known by now, so the error page has the menu."""
        if trouble := _trouble_in_query(request):
            raise BadRequest(trouble)


class StaticFiles:
    """WhiteNoise for synchronous and asynchronous servers.

    WhiteNoise itself is only synchronous: every request would occupy a thread that waits for the event loop. A request
    in progress at SIGTERM would then keep the process alive, because Python waits for its threads.
    """

    sync_capable = True
    async_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self._files = WhiteNoiseMiddleware(get_response)
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        # WhiteNoise returns a file's response, or else the response of the next middleware, which may be awaitable.
        answer: HttpResponseBase | Awaitable[HttpResponseBase] = self._files(request)
        return _ready(answer) if self._async and not isinstance(answer, Awaitable) else answer


class LoginRequired(LoginRequiredMiddleware):
    """Django's middleware, except that it loads no user for views without a login: the database may be unavailable."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        """Ask for a login before a view that needs one."""
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)


async def _ready(response: HttpResponseBase) -> HttpResponseBase:
    return response


async def _later(answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
    return _with_policy(await answer)


def _with_policy(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response


def trouble_in(request: HttpRequest) -> str:
    """Return the problem with the request as a sentence; "" if there is none."""
    return _trouble_in_head(request) or _trouble_in_query(request)


def _trouble_in_head(request: HttpRequest) -> str:
    """Check the host and the cookies. One cookie is the session's key, and PostgreSQL would refuse a NUL in it."""
    try:
        request.get_host()
    except SuspiciousOperation:
        return _("This is not a host name of the console. An administrator can add it to VELA_ALLOWED_HOSTS.")
    if any("\0" in value for value in request.COOKIES.values()):
        return _("A cookie contains a NUL.")
    return ""


def _trouble_in_query(request: HttpRequest) -> str:
    try:
        texts = [text for name, values in request.GET.lists() for text in (name, *values)]
    except SuspiciousOperation:
        return _("The query string has too many values.")
    if any("\0" in text for text in texts):
        return _("The query string contains a NUL.")
    return ""


def _refusal(request: HttpRequest, trouble: str) -> HttpResponseBase:
    if is_api_path(request.path):
        return Problem(400, "BadRequest", trouble).response()
    return render(request, "400.html", {"trouble": trouble}, status=400)
