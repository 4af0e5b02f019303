"""docs/reference/http.md: every page of the console and every operation of `/api/v1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.api.openapi import document_of
from console.api.urls import api
from console.urls import urlpatterns
from tests.unit.docs.pages import code_names, page, rows, section

PAGE = page("reference/http.md")
TOPIC = "/{}/{}/{}/{}"  # domain, tenant, namespace, local name
OPERATION = re.compile(r"(GET|POST|PATCH|DELETE) (\S+)")


def addresses() -> set[str]:
    """Return the addresses in the table of the console's port, with {} for each variable part."""
    table = section(PAGE, "The console's port").partition("###")[0]
    return {_plain(name) for cells in rows(table) for name in code_names(cells[0]) if name.startswith("/")}


def _plain(address: str) -> str:
    whole = address.partition("?")[0].replace("/t/…", f"/t{TOPIC}").replace("/n/…", "/n/{}/{}")
    whole = re.sub(r"\{\w+\}|…", "{}", whole)
    return re.sub(r"(\{\}:)+\{\}", "{}", whole)  # a message's id is one part


def pages() -> Iterator[str]:
    """Yield the address of each page that a browser can open."""
    for pattern in urlpatterns:
        if not _takes_only_forms(pattern.callback):
            route = f"/{pattern.pattern}".replace("/<topic:topic>", TOPIC)
            yield re.sub(r"<[^>]+>", "{}", route)


def _takes_only_forms(view: Any) -> bool:
    while view is not None and Path(view.__code__.co_filename).stem != "post_only":
        view = getattr(view, "__wrapped__", None)
    return view is not None


def documented_operations() -> set[tuple[str, str]]:
    found = set()
    for cells in rows(section(PAGE, "`/api/v1`")):
        for name in code_names(cells[0]):
            if operation := OPERATION.fullmatch(name):
                method, path = operation.groups()
                path = path.replace("…/rules", "/api/v1/alerts/rules").replace(
                    "…/", f"/api/v1/topics{TOPIC}/", 1
                )
                found.add((method, _plain(path)))
    return found


def operations() -> set[tuple[str, str]]:
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", f"/api/v1/{path.lstrip('/')}"))
        for path, methods in document_of(api)["paths"].items()
        for method in methods
        if method in ("get", "post", "patch", "delete")
    }


def test_every_page_of_the_console_has_its_row() -> None:
    assert sorted(set(pages()) - addresses()) == []


def test_every_operation_of_the_api_has_its_row_and_every_row_its_operation() -> None:
    assert documented_operations() == operations()
