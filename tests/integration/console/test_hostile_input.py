"""Every address of the console with hostile values: an answer below 500 and no traceback in the log.

The addresses come from Django's resolver and the names in query strings from the source, so a new one is walked by
itself. Django's own admin is left out: its views are Django's, and so are its answers.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.forms import Form
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from broker.acts import requests as acts
from console import blocks
from console.api.openapi import document_of
from console.api.urls import api
from console.forms import ApplyForm, act_forms
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.shop import Shop

HOSTILE = {
    "NUL": "%00",
    "NUL inside": "a%00b",
    "invalid UTF-8": "%FF%FE",
    "a lone surrogate": "%ED%A0%80",
    "a broken escape": "%zz%",
    "a huge number": "9" * 40,
    "more than 64 bits": "9223372036854775808",
    "more than 32 bits": "2147483648",
    "a negative number": "-1",
    "another digit": quote("٣²"),
    "infinity": "inf",
    "no number": "nan",
    "10,000 characters": "x" * 10_000,
    "control characters": "%01%1B%7F%C2%85%0A%0D",
    "direction characters": quote("\u202eabc\u2066\ufeff\u2028"),
    "HTML": quote("<script>alert(1)</script>'\"&"),
    "a forged cursor": "WyJcdTAwMDAiXQ",  # ["\0"] as the API's pages write it
    "a cursor of infinity": "W0luZmluaXR5LCAieCJd",  # [Infinity, "x"]
    "a lone surrogate in a cursor": "WzAuMCwgIlx1ZDgwMCJd",  # [0.0, "\ud800"]
    "a pattern": quote("%\\_'; --"),
    "dots": "..",
}
GOOD = {
    "topic": "persistent/public/default/orders",
    "domain": "persistent",
    "tenant": "public",
    "namespace": "default",
    "local_name": "orders",
    "subscription": "billing",
    "name": "billing",
    "kind": "skip",
    "spot": "1:0",
    "act_id": "1",
}
PARAMETER = re.compile(r"<(?:(?P<converter>\w+):)?(?P<name>\w+)>")
ASKED = re.compile(r'(?:GET|query|asked)\.get(?:list)?\("(\w+)"')
API = "/api/v1"
HOSTS = [
    "[",
    "[::1",
    "a b",
    "%00",
    "x" * 10_000,
    "127.0.0.1:abc",
    "[::1]:80:90",
    "elsewhere.example",
    "é",
    "",
]


def routes(patterns: list[Any], prefix: str = "/") -> Iterator[tuple[str, str]]:
    """The address of every view, with <converter:name> in it, and the module of the view."""
    for pattern in patterns:
        route = getattr(
            pattern.pattern, "_route", "no-such-address"
        )  # a regular expression takes what is left
        if isinstance(pattern, URLResolver) and route != "django-admin/":
            yield from routes(pattern.url_patterns, prefix + route)
        elif isinstance(pattern, URLPattern):
            yield prefix + route, pattern.callback.__module__


MODULES = dict(sorted(routes(get_resolver().url_patterns)))
ROUTES = list(MODULES)


def names_of(route: str) -> list[str]:
    """The names that a view takes in a query string, as the API describes them or as the page's source reads them.

    A page reads them by itself or with a form, or as blocks do for all pages.
    """
    operations = document_of(api)["paths"].get(PARAMETER.sub(r"{\g<name>}", route.removeprefix(API)))
    if route.startswith(API):
        parameters = operations["get"]["parameters"] if operations and "get" in operations else []
        return sorted(each["name"] for each in parameters if each["in"] == "query")
    module = sys.modules[MODULES[route]]
    read = [Path(source.__file__ or "") for source in (module, blocks)]
    forms = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Form)]
    names = {name for path in read for name in ASKED.findall(path.read_text())}
    return sorted(names.union(*(form.base_fields for form in forms)))


FORMS: list[type[Form]] = [*act_forms.values(), ApplyForm]
FIELDS = sorted(
    {"username", "password", "next", "to", "csrfmiddlewaretoken"}.union(*(form.base_fields for form in FORMS))
)


def filled(route: str, values: dict[str, str]) -> str:
    return PARAMETER.sub(lambda found: values.get(found["name"], "public"), route)


@pytest.fixture
def people(operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Client:
    """An operator whose plans are answered at once, and whose errors are answers as in production."""
    fake = FakeActs()
    for name in ("plan", "apply", "plan_undo"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    operator.raise_request_exception = False
    return operator


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails at the end if a traceback was logged where the settings' handler writes."""
    yield
    with_traceback = [
        record.getMessage()[:200]
        for record in caplog.get_records("call")
        if record.exc_info and record.exc_info[0] and not record.name.startswith("django.security")
    ]
    assert with_traceback == []


def status_of(answer: Any) -> int:
    """The status, after a file has been read to its end: a file that nobody reads keeps its place."""
    if answer.streaming and not answer.is_async:
        b"".join(answer.streaming_content)
    return int(answer.status_code)


def test_the_walk_finds_what_there_is() -> None:
    examine = "/api/v1/topics/<domain>/<name:tenant>/<name:namespace>/<name:local_name>/examine"
    assert {"/topics", "/acts/<int:act_id>/undo", examine} <= set(ROUTES)
    assert {"part", "q", "kind", "state", "before"} <= set(names_of("/acts"))
    assert {"start", "at", "path", "after", "format"} <= set(names_of("/t/<topic:topic>/messages/export"))
    assert "after" in names_of("/topics")
    assert {"namespace", "sort", "limit", "after"} <= set(names_of("/api/v1/topics"))
    assert {"consumer", "messages", "time", "confirm"} <= set(FIELDS)


@pytest.mark.parametrize("route", [route for route in ROUTES if PARAMETER.search(route)])
def test_hostile_names_in_addresses(route: str, people: Client, log: None) -> None:
    for found, (what, value) in product(PARAMETER.finditer(route), HOSTILE.items()):
        hostile = "/".join(["persistent", "public", "default", value]) if found["name"] == "topic" else value
        address = filled(route, {**GOOD, found["name"]: hostile})
        for method in ("get", "post"):
            status = status_of(getattr(people, method)(address))
            assert status < 500, f"{method} {what}: {address[:200]}"


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_query_strings(route: str, people: Client, log: None) -> None:
    address = filled(route, GOOD)
    for name, (what, value) in product(names_of(route), HOSTILE.items()):
        status = status_of(people.get(f"{address}?{name}={value}"))
        assert status < 500, f"{what}: {address}?{name}"


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_forms_and_documents(route: str, people: Client, log: None) -> None:
    address = filled(route, GOOD)
    if people.post(address).status_code in (404, 405):
        return
    for what, value in HOSTILE.items():
        for name in FIELDS:
            body = f"{name}={value}&to=id&messages=1"
            answer = people.post(address, body, content_type="application/x-www-form-urlencoded")
            assert answer.status_code < 500, f"{what}: {address} {name}"
        for text in (f'"\\u0000{value}"', f'"\\ud800{value}"', f"{value}", "[" * 10_000, "1e999", "{}"):
            body = (
                f'{{"kind": {text}, "topic": {text}, "parameters": {{"messages": {text}}}, "reason": {text}}}'
            )
            status = people.post(address, body, content_type="application/json").status_code
            assert status < 500, f"{what}: {address} {text[:50]}"


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_hosts_and_cookies(route: str, people: Client, log: None) -> None:
    address = filled(route, GOOD)
    for host in HOSTS[:-1]:
        answer = people.get(address, headers={"host": host})
        assert answer.status_code == 400, host[:20]
        assert "VELA_ALLOWED_HOSTS" in answer.content.decode()
    for cookie in (
        'sessionid="\\000"',
        'csrftoken="\\000"; vela_theme="\\000"',
        "sessionid=" + "x" * 10_000,
        "=;=,",
    ):
        status = Client(raise_request_exception=False).get(address, headers={"cookie": cookie}).status_code
        assert status < 500, cookie[:50]


@pytest.mark.parametrize("query", ["after=%00", "ns=%00", "kind=%00", "state=%00", "q=a%00b"])
@pytest.mark.parametrize("address", ["/topics", "/acts", "/api/v1/topics", "/api/v1/acts"])
def test_a_nul_is_refused_in_words(address: str, query: str, people: Client) -> None:
    answer = people.get(f"{address}?{query}")
    assert (answer.status_code, "contains a NUL" in answer.content.decode()) == (400, True)


def test_a_refused_request_is_one_line_in_the_log() -> None:
    trouble = (ValueError, ValueError("x"), None)
    record = logging.LogRecord("django.security.DisallowedHost", logging.ERROR, "", 0, "no", (), trouble)
    handler = next(handler for handler in logging.getLogger().handlers if handler.name == "stderr")
    handler.filter(record)
    assert not record.exc_info
