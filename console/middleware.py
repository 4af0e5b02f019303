"""Around every page: a strict content policy, and static files without a thread that waits for the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

__all__ = ["POLICY", "ContentSecurityPolicy", "StaticFiles"]

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
    """Sets the policy on whatever answers, synchronous or not, unless the view set one itself."""

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


class StaticFiles:
    """WhiteNoise, asynchronous where the server is.

    By itself it is synchronous only: every request then holds a thread that waits for the loop, and a request under way
    at SIGTERM would keep the process from ending, since Python waits for its threads.
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
        # What it returns is the file's response or whatever the next one returns, awaitable or not.
        answer: HttpResponseBase | Awaitable[HttpResponseBase] = self._files(request)
        return _ready(answer) if self._async and not isinstance(answer, Awaitable) else answer


async def _ready(response: HttpResponseBase) -> HttpResponseBase:
    return response


async def _later(answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
    return _with_policy(await answer)


def _with_policy(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response
