"""Each error is one sentence that names what to change, and has its exit code."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import pty
import select
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, an_act, problem
from vela.aio.connections.credentials import credentials_of
from vela.authentication import AuthenticationToken
from vela.cli.client import as_cli_error
from vela.cli.settings import Settings
from vela.core.service_url import parse_service_url
from vela.errors import (
    AuthorizationError,
    ConnectError,
    ErrorGettingAuthenticationData,
    HandshakeError,
    InvalidUrl,
    ReadError,
)

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
        (
            httpx.ConnectTimeout,
            1,
            "no console answered at http://127.0.0.1:8000 within 5 s: set VELA_CONSOLE_URL",
        ),
        (httpx.RemoteProtocolError, 1, "the request to the console"),
    ],
)
def test_an_unavailable_console_is_named_with_its_address(
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
        (
            problem(404, "TopicNotFound", "there is no topic x"),
            3,
            "there is no topic x: `vela topics list` lists what there is",
        ),
        (
            problem(404, "SubscriptionNotFound", "there is no subscription s on x"),
            3,
            "there is no subscription s on x: `vela subscriptions list TOPIC` lists what there is",
        ),
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
def test_each_refusal_of_the_console_has_its_sentence_and_exit_code(
    answer: httpx.Response, exit_code: int, says: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers[HERE] = answer
    done = vela(LIST)
    assert (done.exit_code, says in done.stderr) == (exit_code, True), done.stderr
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_a_request_without_a_user_gets_a_hint(
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
        "error": "there is no topic x: `vela topics list` lists what there is",
        "code": "TopicNotFound",
        "exit_code": 3,
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("topics list --limit -3 --json", "Invalid value for '--limit': -3 is not in the range"),
        ("topics list --json --limit -3", "Invalid value for '--limit': -3 is not in the range"),
        ("acts show x --json", "Invalid value for 'ACT'"),
        ("acts show --json", "Missing argument 'ACT'"),
        ("acts show --json 7 8", "unexpected extra argument (8)"),
        ("topics list --json --frobnicate", "No such option '--frobnicate'"),
        ("topics list --json --limit", "Option '--limit' requires an argument"),
        ("topics frobnicate --json", "No such command 'frobnicate'"),
        ("frobnicate --json", "No such command 'frobnicate'"),
        ("--frobnicate topics list --json", "No such option '--frobnicate'"),
        ("--json topics list", "Write --json after the command"),
        ("--json bogus", "Write --json after the command"),
        ("produce a/b m --json", "'a/b' is not a topic name"),
        ("produce t m --ids --json", "Use either --ids or --json, not both"),
        ("clear orders billing --json", "vela does not ask with --json"),
    ],
)
def test_with_json_usage_errors_are_json_too(line: str, says: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(line)
    (error,) = (json.loads(each) for each in done.stderr.splitlines())
    assert (says in error.pop("error"), error) == (True, {"code": "Usage", "exit_code": 2}), done.stderr
    assert (done.exit_code, done.stdout, console.asked) == (2, "", [])


def test_a_message_that_looks_like_the_option_json_is_not_taken_for_it(
    vela: Vela, console: FakeConsole
) -> None:
    assert vela("produce a/b -- --json").stderr.startswith("Usage: vela produce")


@pytest.mark.parametrize("line", ["topics show t\udcff", "clear t s\udcff --yes"])
def test_bytes_that_are_not_text_are_a_usage_error(line: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(line)
    assert (done.exit_code, "udcff" in done.stderr, "is not UTF-8" in done.stderr) == (2, True, True)


@pytest.mark.parametrize(
    ("key", "exit_code", "says"),
    [(b"\x04", 5, "vela: there is no password for user 'ada'"), (b"\x03", 130, "")],
)
def test_a_password_prompt_that_is_not_answered_ends_the_command(
    key: bytes, exit_code: int, says: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VELA_PASSWORD"}
    pid, terminal = pty.fork()
    if not pid:
        line = [sys.executable, "-m", "vela.cli", "--user", "ada", "topics", "list"]
        os.execve(sys.executable, line, environment)
    shown = b""
    with suppress(OSError):  # raised when the program has ended
        while True:
            # Typed repeatedly: a Ctrl-C just before Python begins to read takes effect only after the read.
            while b"password of ada at " in shown and not select.select([terminal], [], [], 0.2)[0]:
                os.write(terminal, key)
            shown += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == exit_code
    after = shown.decode().partition("\r\n")[2]
    assert (after.startswith(says), after.count("\n")) == (True, 1 if says else 0), shown


@pytest.mark.parametrize(
    ("cause", "is_away"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), True),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), True),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed a, [Errno 111] Connect call failed b"), True),
        (socket.gaierror(-2, "Name or service not known"), False),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), False),
        (ssl.SSLError(1, "wrong version number"), False),
        (None, False),
    ],
)  # fmt: skip
def test_the_advice_is_to_start_the_broker_only_when_none_answers(
    cause: OSError | None, is_away: bool
) -> None:
    asked = Settings(url="ws://127.0.0.1:1", console_url="", user="", password="")
    error = (HandshakeError if isinstance(cause, ssl.SSLError) else ConnectError)("no connection")
    error.__cause__ = cause
    start = "start the broker, or " if is_away else ""
    advice = f"{start}set VELA_URL or --url to the broker's address"
    assert as_cli_error(error, asked).message == f"no connection; {advice}"
    lost = as_cli_error(ReadError("the connection was lost"), asked)
    assert (lost.message, lost.exit_code) == ("the connection was lost", 1)


@pytest.mark.parametrize("url", ["pulsar://ada:secret@[", "ws://ada:se@cret@host?a=b"])
def test_an_invalid_address_is_shown_without_its_password(url: str) -> None:
    asked = Settings(url=url, console_url="", user="", password="")
    with pytest.raises(InvalidUrl) as caught:
        parse_service_url(url)
    shown = as_cli_error(caught.value, asked)
    assert url.rpartition("@")[2] in shown.message
    assert ("cret" in shown.message, shown.exit_code) == (False, 2)


def test_errors_of_certificates_files_and_rights_say_what_to_change() -> None:
    asked = Settings(url="wss://127.0.0.1:1", console_url="", user="", password="")
    untrusted = HandshakeError("its certificate is not trusted")
    untrusted.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    assert "set VELA_CLIENT_TRUST_FILE or --tls-trust-file" in as_cli_error(untrusted, asked).message
    refused = as_cli_error(AuthorizationError("the role 'billing' may not produce to t"), asked)
    assert (refused.exit_code, "`manage.py permission set`" in refused.message) == (5, True)
    missing = AuthenticationToken(lambda: Path("/no/such/token").read_text(encoding="utf-8"))
    with pytest.raises(ErrorGettingAuthenticationData, match="/no/such/token"):
        asyncio.run(credentials_of(missing))


def test_a_scheme_that_may_be_wrong_is_named(vela: Vela, console: FakeConsole) -> None:
    console.fails = raising(httpx.ConnectTimeout)
    for scheme, other in (("http", "if it uses TLS, its address begins with https://"),
                          ("https", "if it does not use TLS, its address begins with http://")):  # fmt: skip
        done = vela(f"--console-url {scheme}://127.0.0.1:8000 {LIST}")
        assert (done.exit_code, done.stderr.endswith(f"; {other}\n")) == (1, True), done.stderr


def test_a_command_asks_for_the_password_once(
    vela: Vela, console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    asked: list[str] = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        return "secret-7"

    monkeypatch.delenv("VELA_PASSWORD")
    monkeypatch.setattr("getpass.getpass", typed)
    console.answers["GET pipeline/runs/3"] = {"topic_name": "persistent://public/default/orders"}
    done = vela("pipeline cancel 3 --yes", Terminal())
    assert (done.exit_code, len(asked)) == (0, 1), done.output
    assert len({each.headers["authorization"] for each in console.asked}) == 1


def test_without_a_terminal_a_missing_password_is_reported(
    vela: Vela, console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VELA_PASSWORD")
    done = vela(f"{LIST} --json")
    error = json.loads(done.stderr)
    assert (done.exit_code, error["code"], console.asked) == (5, "NoPassword", [])
    assert error["error"].endswith("is missing, and there is no terminal to ask for it: set VELA_PASSWORD")


def test_a_non_persistent_topic_is_reported_as_not_stored(vela: Vela, console: FakeConsole) -> None:
    topic = "non-persistent://public/default/t"
    gone = f"there is no topic {topic}"
    says = "non-persistent topics are not stored, so you cannot show them or act on them"
    path = "topics/non-persistent/public/default/t"
    console.answers[f"GET {path}"] = problem(404, "TopicNotFound", gone)
    console.answers[f"GET {path}/subscriptions/s/peek"] = problem(404, "TopicNotFound", gone)
    console.answers["POST acts"] = httpx.Response(202, json=an_act(state="plan_requested", is_waiting=True))
    console.answers["GET acts/7"] = an_act(state="refused", error=gone, error_code="NothingToActOn")
    for line in (f"topics show {topic}", f"peek {topic} s", f"clear {topic} s --yes"):
        done = vela(line)
        assert (done.exit_code, says in done.stderr) == (3, True), done.stderr
    console.answers["GET topics/persistent/public/default/t"] = problem(404, "TopicNotFound", "no t")
    assert says not in vela("topics show t").stderr


def test_an_error_with_foreign_text_is_one_line(vela: Vela, console: FakeConsole) -> None:
    console.answers[HERE] = problem(404, "NothingToActOn", "no consumer a\x1b[2J\nvela: done")
    assert vela(LIST).stderr == "vela: no consumer a\\x1b[2J⏎vela: done\n"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999", "http://[::1", "127.0.0.1:8000", "ws://127.0.0.1:8080", "http://", "ftp://x"],
)
def test_an_invalid_address_is_a_usage_error(url: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(f"--console-url {url} {LIST}")
    assert (done.exit_code, "set VELA_CONSOLE_URL or --console-url to http://host:port" in done.stderr) == (
        2,
        True,
    )


def test_credentials_are_sent_and_never_shown(vela: Vela, console: FakeConsole) -> None:
    vela("--console-url http://root:hidden-9@127.0.0.1:8000 --user ada topics list")
    assert console.asked[0].headers["authorization"].startswith("Basic ")
    console.fails = raising(httpx.ConnectError)
    for address in ("127.0.0.1:8000", "127.0.0.1:99999"):
        done = vela(f"--console-url http://root:hidden-9@{address} topics list")
        assert "hidden-9" not in done.output
        assert "secret-7" not in done.output


@pytest.mark.parametrize("option", ["--tls-trust-file /no/such/file", "--tls-certificate-file /no/such/file"])
def test_a_file_for_tls_that_cannot_be_used_is_a_wrong_option(
    option: str, vela: Vela, console: FakeConsole
) -> None:
    for line in (LIST, "--url wss://127.0.0.1:1 consume orders s"):
        done = vela(f"{option} {line}")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "tls_" in done.stderr
