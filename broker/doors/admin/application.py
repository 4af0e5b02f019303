"""The ASGI application for /admin/v2, /lookup/v2 and /topics.

The application does not use Django's request handler, because that handler uses a thread after each request.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, URLPattern
from django.urls.resolvers import RegexPattern, URLResolver
from ninja.responses import NinjaJSONEncoder

from broker.core.errors import AuthenticationFailed, InvalidTopicName, NotAuthorized, TooManyRequests
from broker.doors.admin.absent import why_absent
from broker.doors.admin.api import API, refusal
from broker.doors.admin.refusals import status_of
from broker.doors.admin.request import AdminRequest
from broker.doors.asgi import respond
from broker.doors.http_credentials import principal_of

if TYPE_CHECKING:
    from broker.doors.asgi import Receive, Scope, Send
    from broker.doors.ports import AdminPort

__all__ = ["AdminPages"]

_RESOLVER: Final = URLResolver(
    RegexPattern(r"^/"),
    [each for each in API.urls[0] if isinstance(each, URLPattern) and each.name != "api-root"],
)


_OPENAPI_PATH: Final = "/admin/v2/openapi.json"


@cache
def _openapi() -> bytes:
    """Return the description of the API.

    The first call takes some tenths of a second. Run it in a thread, and not while the broker starts.
    """
    return json.dumps(API.get_openapi_schema(path_prefix=""), cls=NinjaJSONEncoder).encode()


class AdminPages:
    """Authenticates and serves requests. The caller must have checked host and origin."""

    def __init__(self, broker: AdminPort) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        request = AdminRequest({**scope, "method": method, "query_string": b""}, BytesIO(body))
        request.broker = self._broker
        request.query_string = scope["query_string"]
        try:
            request.principal = await principal_of(self._broker, scope)
            answer = await self._answer(request, scope)
        except (AuthenticationFailed, InvalidTopicName, NotAuthorized, TooManyRequests) as error:
            answer = refusal(status_of(error), str(error))
        headers = [
            (name.lower().encode(), value.encode())
            for name, value in answer.items()
            if name.lower() not in ("content-type", "content-length")
        ]
        if answer.status_code == 204:
            # Send no content type and no length. With them, Pulsar's Java client would wait for a body.
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        content_type = answer.get("Content-Type", "application/json").encode()
        body = getattr(answer, "content", b"")
        await respond(scope, send, answer.status_code, body, content_type=content_type, headers=headers)

    async def _answer(self, request: AdminRequest, scope: Scope) -> HttpResponseBase:
        # Use the encoded path. In a decoded path, a slash inside a topic's name would look like a separator.
        raw = scope.get("raw_path")
        path = raw.decode("ascii") if raw else quote(scope["path"])
        if path == _OPENAPI_PATH and request.method == "GET":
            return HttpResponse(await asyncio.to_thread(_openapi), content_type="application/json")
        try:
            found = _RESOLVER.resolve(path.rstrip("/"))
        except Resolver404:
            why = why_absent(path) or "docs/reference/admin-rest.md lists the paths"
            return refusal(404, f"the admin API has no path {path}: {why}")
        request.path_names = found.kwargs
        answer: HttpResponseBase = await found.func(request, *found.args, **found.kwargs)
        if answer.status_code == 405 and "Allow" in answer:
            why = why_absent(path)
            refused = refusal(405, f"{path} takes {answer['Allow']}{f': {why}' if why else ''}")
            refused["Allow"] = answer["Allow"]
            return refused
        return answer


async def _body(receive: Receive) -> bytes | None:
    """Return the body, or None if the client has disconnected. The server limits the size of the body."""
    parts: list[bytes] = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)
