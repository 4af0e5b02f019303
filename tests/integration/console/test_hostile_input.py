"""Every address of the console with hostile values: an answer below 500 and no traceback in the log.

The addresses come from Django's resolver. The names in query strings and forms are those that the views read. So new
addresses and names are tried too. Django's own admin is left out, because its views are Django's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from broker.acts import requests as acts
from console.api.openapi import document_of
from console.api.urls import api
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.shop import ORDERS, Shop

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
    "act": "bookmark",
    "spot": "1:0",
    "act_id": "1",
    "job": "export",
    "run_id": "1",
    "verb": "cancel",
    "schedule_id": "1",
    "rule_id": "1",
    "view_id": "1",
    "change": "rename",
}
PARAMETER = re.compile(r"<(?:(?P<converter>\w+):)?(?P<name>\w+)>")
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


def routes(patterns: list[Any], prefix: str = "/") -> Iterator[str]:
    """Yield the address of every view, with <converter:name> in it."""
    for pattern in patterns:
        # The only regular expression matches every address that no other pattern does.
        route = getattr(pattern.pattern, "_route", "no-such-address")
        if isinstance(pattern, URLResolver) and route != "django-admin/":
            yield from routes(pattern.url_patterns, prefix + route)
        elif isinstance(pattern, URLPattern):
            yield prefix + route


ROUTES = sorted(set(routes(get_resolver().url_patterns)))


def described_names(route: str) -> set[str]:
    """Return the names that an operation of the API takes in a query string."""
    operations = document_of(api)["paths"].get(PARAMETER.sub(r"{\g<name>}", route.removeprefix(API)))
    parameters = operations["get"]["parameters"] if operations and "get" in operations else []
    return {each["name"] for each in parameters if each["in"] == "query"}


QUERIES = {
    "/acts": {"part", "q", "kind", "state", "before"},
    "/topics": {"part", "q", "sort", "after"},
    "/consumers": {"sub", "flag", "after", "key"},
    "/t/<topic:topic>/messages/export": {"start", "at", "path", "after", "format"},
    "/api/v1/topics": {"namespace", "sort", "limit", "after"},
}
FORMS = {
    "/login": {"username", "password", "next"},
    "/account/time-zone": {"zone"},
    "/acts/<int:act_id>/apply": {"confirm"},
    "/t/<topic:topic>/s/<name:name>/act/<name:kind>": {"messages"},
    "/t/<topic:topic>/act/<name:act>": {"to", "time"},
}
"""Some of the names in query strings and of the fields in forms that the walk must find by itself."""


class Watched(QueryDict):
    """A query string or a form that records which names the view reads. No other name can do any harm."""

    names: ClassVar[set[str]] = set()

    def __init__(self, *given: Any, **options: Any) -> None:
        before = set(self.names)
        super().__init__(*given, **options)  # this reads each name that was sent
        self.names.intersection_update(before)

    def __getitem__(self, key: str) -> Any:
        self.names.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)

    def getlist(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().getlist(key, default)


def try_all(names: set[str], status_of_all: Callable[[list[str], str], int]) -> set[str]:
    """Send every hostile value under every name, and then under each other name that the view reads."""
    tried: set[str] = set()
    while new := names - tried:
        for what, value in HOSTILE.items():
            status = status_of_all(sorted(new), value)
            assert status < 500, f"{' '.join(sorted(new))}: {what}"
        tried |= new
    return tried


def given(names: list[str], value: str) -> str:
    """Return the text of a query string or a form that gives all these names the value."""
    return "&".join(f"{name}={value}" for name in names)


def filled(route: str, values: dict[str, str]) -> str:
    return PARAMETER.sub(lambda found: values.get(found["name"], "public"), route)


@pytest.fixture
def people(admin: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Client:
    """An admin whose plans are ready at once. As in production, exceptions become answers. Act 1 is planned."""
    fake = FakeActs()
    fake.plan("skip", topic=ORDERS, subscription="billing", parameters={}, who="anna", origin="console")
    for name in ("plan", "apply", "refuse", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    admin.raise_request_exception = False
    return admin


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail at the end if the log handler of the settings wrote a traceback."""
    yield
    with_traceback = [
        record.getMessage()[:200]
        for record in caplog.get_records("call")
        if record.exc_info and record.exc_info[0] and not record.name.startswith("django.security")
    ]
    assert with_traceback == []


def status_of(answer: Any) -> int:
    """Return the status. A file is read to its end first, because an unread export keeps its slot."""
    if answer.streaming and not answer.is_async:
        b"".join(answer.streaming_content)
    return int(answer.status_code)


def test_the_walk_over_addresses_finds_every_kind_of_address() -> None:
    examine = "/api/v1/topics/<domain>/<name:tenant>/<name:namespace>/<name:local_name>/examine"
    assert {"/acts/<int:act_id>/undo", examine, *QUERIES, *FORMS} <= set(ROUTES)


@pytest.mark.parametrize("route", [route for route in ROUTES if PARAMETER.search(route)])
def test_hostile_names_in_addresses_cause_no_fault(route: str, people: Client, log: None) -> None:
    address = filled(route, GOOD)
    methods = [each for each in (people.get, people.post) if status_of(each(address)) != 405]
    for found, (what, value) in product(PARAMETER.finditer(route), HOSTILE.items()):
        hostile = "/".join(["persistent", "public", "default", value]) if found["name"] == "topic" else value
        address = filled(route, {**GOOD, found["name"]: hostile})
        for method in methods:
            assert status_of(method(address)) < 500, f"{method} {what}: {address[:200]}"


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_query_strings_cause_no_fault(
    route: str, people: Client, log: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = filled(route, GOOD)
    names = described_names(route)
    monkeypatch.setattr("django.core.handlers.wsgi.QueryDict", Watched)
    monkeypatch.setattr(Watched, "names", names)

    alone: set[str] = set()  # the view may refuse a value of these names before it reads others

    def status_with(some: list[str], value: str) -> int:
        return status_of(people.get(f"{address}?{given(some, value)}"))

    def status_of_all(some: list[str], value: str) -> int:
        """Return the worst status for all names together, and for each name alone if a refusal may hide others."""
        together = [name for name in some if name not in alone]
        found = [status_with([name], value) for name in some if name in alone]
        found.append(status_with(together, value))
        if found[-1] >= 400:
            each = {name: status_with([name], value) for name in together}
            refused = {name for name, status in each.items() if status >= 400}
            if refused != each.keys():  # a NUL is refused under every name
                alone.update(refused)
            found.extend(each.values())
        return max(found)

    assert status_of(people.get(address)) < 500
    tried = try_all(names, status_of_all)
    assert QUERIES.get(route, set()) <= tried


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_forms_cause_no_fault(
    route: str, people: Client, log: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = filled(route, GOOD)
    names: set[str] = set()
    monkeypatch.setattr("django.http.request.QueryDict", Watched)
    monkeypatch.setattr(Watched, "names", names)
    # A logged-in user would be redirected from /login at once.
    who = Client(raise_request_exception=False) if route == "/login" else people

    def status_with(form: str) -> int:
        return status_of(who.post(address, form, content_type="application/x-www-form-urlencoded"))

    if status_with("") in (404, 405):
        return
    names.discard("csrfmiddlewaretoken")  # Django does not check this token for the test's client
    # All fields get the value at once, because a form checks each independently.
    tried = try_all(names, lambda some, value: status_with(f"to=id&messages=1&{given(some, value)}"))
    assert FORMS.get(route, set()) <= tried


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_documents_cause_no_fault(route: str, people: Client, log: None) -> None:
    address = filled(route, GOOD)
    if people.post(address).status_code in (404, 405):
        return
    # Pages do not read documents, so one value is enough.
    values = HOSTILE if route.startswith(API) else {"HTML": HOSTILE["HTML"]}
    for what, value in values.items():
        for text in (f'"\\u0000{value}"', f'"\\ud800{value}"', f"{value}", "[" * 10_000, "1e999", "{}"):
            body = (
                f'{{"kind": {text}, "topic": {text}, "parameters": {{"messages": {text}}}, "reason": {text}}}'
            )
            status = people.post(address, body, content_type="application/json").status_code
            assert status < 500, f"{what}: {address} {text[:50]}"


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_hosts_and_cookies_cause_no_fault(route: str, people: Client, log: None) -> None:
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
