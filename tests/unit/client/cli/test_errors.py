"""Whatever goes wrong is one sentence that names what to change, and an exit code of its own."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, problem

LIST = "topics list"
HERE = "GET topics"


def raising(error: type[httpx.TransportError]) -> Callable[[httpx.Request], None]:
    def fails(request: httpx.Request) -> None:
        raise error("[Errno 111] Connection refused", request=request)

    return fails


@pytest.mark.parametrize(
    ("error", "exit_code", "says"),
    [
        (
            httpx.ConnectError,
            1,
            "no console answers at http://127.0.0.1:8000 ([Errno 111] Connection refused): start it, or",
        ),
        (httpx.ReadTimeout, 3, "did not answer in time"),
        (httpx.RemoteProtocolError, 1, "could not be asked"),
    ],
)
def test_a_console_that_is_away(
    error: type[httpx.TransportError], exit_code: int, says: str, vela: Vela, console: FakeConsole
) -> None:
    console.fails = raising(error)
    done = vela(LIST)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("vela: ")
    assert (says in done.stderr, done.stderr.count("\n")) == (True, 1)


@pytest.mark.parametrize(
    ("answer", "exit_code", "says"),
    [
        (
            problem(401, "AuthenticationError", "x"),
            5,
            "user 'ada' was refused: set VELA_USER and VELA_PASSWORD",
        ),
        (problem(403, "AuthorizationError", "only staff"), 5, "user 'ada' may not do this: only staff"),
        (problem(404, "TopicNotFound", "there is no topic x"), 3, "there is no topic x"),
        (problem(400, "BadQuery", "limit is 'x'"), 2, "limit is 'x'"),
        (problem(503, "PersistenceError", "the database did not answer"), 1, "the database did not answer"),
        (
            httpx.Response(404, json={"reason": "no such page"}),
            1,
            "is not Vela's console (404 application/json)",
        ),
        (
            httpx.Response(200, text="<html>", headers={"Content-Type": "text/html"}),
            1,
            "is not Vela's console",
        ),
        (
            httpx.Response(302, headers={"Location": "/login"}),
            1,
            "is not Vela's console (302 without content)",
        ),
        (
            httpx.Response(200, text="[1]", headers={"Content-Type": "application/json"}),
            1,
            "is not Vela's console",
        ),
    ],
)
def test_an_answer_that_is_none(
    answer: httpx.Response, exit_code: int, says: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers[HERE] = answer
    done = vela(LIST)
    assert (done.exit_code, says in done.stderr) == (exit_code, True), done.stderr
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_nobody_is_told_how_to_log_in(
    vela: Vela, console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VELA_USER")
    console.answers[HERE] = problem(401, "AuthenticationError", "log in")
    assert vela(LIST).stderr == (
        "vela: set VELA_USER and VELA_PASSWORD to a user of the console at http://127.0.0.1:8000\n"
    )


def test_with_json_an_error_is_json_too(vela: Vela, console: FakeConsole) -> None:
    console.answers[HERE] = problem(404, "TopicNotFound", "there is no topic x")
    done = vela(f"{LIST} --json")
    assert json.loads(done.stderr) == {
        "error": "there is no topic x",
        "code": "TopicNotFound",
        "exit_code": 3,
    }


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ws://127.0.0.1:8080", "http://", "ftp://x"])
def test_an_address_that_is_none(url: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(f"--console-url {url} {LIST}")
    assert (done.exit_code, "set VELA_CONSOLE_URL or --console-url to http://host:port" in done.stderr) == (
        2,
        True,
    )


def test_who_asks_is_sent_and_never_shown(vela: Vela, console: FakeConsole) -> None:
    vela("--console-url http://root:hidden-9@127.0.0.1:8000 --user ada topics list")
    assert console.asked[0].headers["authorization"].startswith("Basic ")
    console.fails = raising(httpx.ConnectError)
    done = vela("--console-url http://root:hidden-9@127.0.0.1:8000 topics list")
    assert "hidden-9" not in done.output
    assert "secret-7" not in done.output
