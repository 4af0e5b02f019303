"""Middleware for content security, static files, logins and unreadable requests."""

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

    It refuses a NUL because PostgreSQL cannot store one in text.
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
        """Check the query string here, where the error page can use `request.user`."""
        if trouble := _trouble_in_query(request):
            raise BadRequest(trouble)


class StaticFiles:
    """WhiteNoise for synchronous and asynchronous servers.

    Without this class, each open request under ASGI would occupy a thread and delay the shutdown, because WhiteNoise
    itself is synchronous.
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
        answer: HttpResponseBase | Awaitable[HttpResponseBase] = self._files(request)
        return _ready(answer) if self._async and not isinstance(answer, Awaitable) else answer


class LoginRequired(LoginRequiredMiddleware):
    """Loads no user for a view that needs no login, because the database may be unavailable."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
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
    """Return the problem with the request as a sentence, or an empty string."""
    return _trouble_in_head(request) or _trouble_in_query(request)


def _trouble_in_head(request: HttpRequest) -> str:
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
