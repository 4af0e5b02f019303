"""The code between the console's server and Django."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from console.asgi_handler import PagesHandler, readable_types


class Answering(PagesHandler):
    """A handler that answers with the body's type as Django understands it, and with the values of a form."""

    async def get_response_async(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"{request.content_type} {request.GET.get('q')} {request.POST.get('a')}")


def post(content_type: bytes, body: bytes) -> tuple[int, bytes]:
    """Send one request, and return the status and the body of the answer."""
    sent: list[Mapping[str, Any]] = []

    async def run() -> None:
        events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        events.put_nowait({"type": "http.request", "body": body, "more_body": False})

        async def send(event: Mapping[str, Any]) -> None:
            sent.append(event)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "query_string": "q=ü".encode(),
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(body)),
            ],
        }
        await readable_types(Answering())(scope, events.get, send)

    asyncio.run(run())
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@pytest.mark.parametrize(
    "charset", [b"charset*=nonsense'en'x", b"charset=hex", b"charset=undefined", b"charset=utf-16", b'a="b']
)
def test_a_charset_is_ignored(charset: bytes) -> None:
    form = b"application/x-www-form-urlencoded"
    assert post(b"%b; %b" % (form, charset), "a=ä".encode()) == (200, f"{form.decode()} ü ä".encode())


@pytest.mark.parametrize("name", [b"boundary", b"Boundary"])
def test_a_form_in_parts_keeps_its_boundary(name: bytes) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
    answer = post(b"multipart/form-data; charset*=nonsense''x; %b=x" % name, part)
    assert answer == (200, "multipart/form-data ü b".encode())
