"""docs/reference/client.md: every argument of the client with its default, every way to authenticate."""

from __future__ import annotations

import inspect

from tests.unit.docs.pages import code_names, page, rows, section
from vela import authentication
from vela.aio import Client
from vela.aio.oauth2 import AuthenticationOauth2
from vela.authentication import Authentication, AuthenticationDisabled

PAGE = page("reference/client.md")


def documented(heading: str) -> list[list[str]]:
    """Return the rows of the table under a third-level heading."""
    return list(rows(PAGE.partition(f"\n### {heading}\n")[2].partition("\n##")[0]))


def arguments_of(call: type) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(call).parameters)


def test_every_argument_of_the_client_has_its_row_with_its_default() -> None:
    said = {code_names(cells[0])[0]: code_names(cells[1]) for cells in documented("Arguments")}
    assert said == {
        name: [] if each.default is inspect.Parameter.empty else [repr(each.default).replace("_", "")]
        for name, each in arguments_of(Client).items()
    }


OAUTH2 = {"AuthenticationOauth2": AuthenticationOauth2}  # this class does I/O, so it is in another module


def test_every_way_to_authenticate_has_its_row() -> None:
    assert section(PAGE, "Connections")
    said = {code_names(cells[0])[0]: code_names(cells[1]) for cells in documented("Authentication")}
    assert said == {
        name: list(arguments_of(each))
        for name, each in {**dict(inspect.getmembers(authentication, inspect.isclass)), **OAUTH2}.items()
        if issubclass(each, Authentication) and each not in (Authentication, AuthenticationDisabled)
    }
