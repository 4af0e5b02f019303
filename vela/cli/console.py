"""The commands' client for the console's `/api/v1`: dictionaries in and out, and errors that say what to change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, urlsplit

import click

from vela.cli.errors import CliError, Exit
from vela.cli.settings import Settings, settings, without_credentials

if TYPE_CHECKING:
    import httpx

__all__ = ["Answer", "ConsoleApi", "console_api"]

JsonObject = dict[str, Any]
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0  # the analysis of a backlog is slow
_PAGE: Final = 500
_POLL_S = 0.3
_ERASED: Final = "\r\x1b[K"  # returns to the start of the terminal's line, and erases it
# Key of the typed password in the click context, so that a command that opens several APIs asks for it once.
_TYPED: Final = "vela.password"
_NOT_THERE: Final = frozenset(("NothingToActOn", "SubscriptionNotFound", "TopicNotFound"))
_LISTS: Final = {
    "topic": "topics list",
    "subscription": "subscriptions list TOPIC",
    "namespace": "namespaces list",
}
_EXITS: Final = {
    400: Exit.USAGE,
    401: Exit.NOT_ALLOWED,
    403: Exit.NOT_ALLOWED,
    404: Exit.NOTHING,
    409: Exit.REFUSED,
    422: Exit.REFUSED,
}


class Answer:
    """An answer that is not an error."""

    __slots__ = ("body", "etag", "status")

    def __init__(self, status: int, body: JsonObject, etag: str) -> None:
        self.status = status
        self.body = body  # empty with 304
        self.etag = etag


class ConsoleApi:
    """A client for one thread. Every method raises CliError for any error."""

    def __init__(self, asked: Settings, *, timeout_s: float | None = None) -> None:
        import httpx

        address, self._shown_url = _address(asked.console_url)
        authorization = _token_header(asked)
        self._who = f"user {asked.user!r}" if asked.user else "the token" if authorization else ""
        self._keeps_token = not (asked.user or asked.for_console)
        self._client = httpx.Client(
            base_url=f"{asked.console_url.rstrip('/')}/api/v1/",
            auth=(asked.user, asked.password) if asked.user else None,
            headers={"Accept": "application/json", "User-Agent": "vela command line", **authorization},
            timeout=httpx.Timeout(timeout_s or _ANSWER_S, connect=min(timeout_s or _CONNECT_S, _CONNECT_S)),
            verify=asked.tls.context() or True,
            # A proxy named in the environment cannot reach a server that listens only on this computer.
            trust_env=address.hostname not in ("127.0.0.1", "localhost", "::1"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, /, **query: str | int | bool | Sequence[str] | None) -> JsonObject:
        """Read a JSON object."""
        return self.fetch(path, etag="", **query).body

    def fetch(self, path: str, /, *, etag: str, **query: str | int | bool | Sequence[str] | None) -> Answer:
        """Read a JSON object. The answer has status 304 and no body if the object still has this `etag`."""
        asked = {name: value for name, value in query.items() if value not in (None, "")}
        headers = {"If-None-Match": etag} if etag else {}
        return self._send("GET", path, params=asked, headers=headers)

    def download(self, path: str, /, **query: str | int | None) -> Iterator[bytes]:
        """Yield the pieces of a file as they arrive."""
        asked = {name: value for name, value in query.items() if value not in (None, "")}
        with self._reached(), self._client.stream("GET", path, params=asked) as response:
            if response.status_code >= 400 or "Content-Disposition" not in response.headers:
                response.read()
                self._read(response)
                raise self._not_the_console(response)
            yield from response.iter_bytes()

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Request a change, and return the answer."""
        return self._send("POST", path, json=dict(body))

    def patch(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Change the object at this path."""
        return self._send("PATCH", path, json=dict(body))

    def delete(self, path: str) -> Answer:
        """Delete the object at this path."""
        return self._send("DELETE", path, json={})

    def rows(
        self, path: str, member: str, *, most: int, **query: str | int | bool | None
    ) -> Iterator[JsonObject]:
        """Yield the rows of a list, page by page, at most `most` of them; 0 means all."""
        after, left = "", most or sys.maxsize
        while left > 0:
            page = self.get(path, limit=min(left, _PAGE), after=after, **query)
            yield from page[member]
            left -= len(page[member])
            after = page["next_after"] or ""
            if not after:
                return

    def settled(self, answer: Answer, *, wait_s: float) -> JsonObject:
        """Wait until the broker has answered an act and finished its work. Return the act.

        Raises CliError if no broker answers within `wait_s`, or if the act was refused or failed.
        """
        act, until = answer.body, time.monotonic() + wait_s
        with _progress_line() as show:
            while act["is_waiting"] or act["state"] == "applying":
                if act["is_waiting"] and time.monotonic() > until:
                    raise _still_waiting(act, wait_s)
                show(act)
                time.sleep(_POLL_S)
                act = self.get(f"acts/{act['id']}")
        if act["error"]:
            exit_code = _exit_of(act)
            why = _with_where_to_look(act["error"], exit_code is Exit.NOTHING)
            raise CliError(
                f"act {act['id']} {act['state']}: {why}{_how_to_apply(act)}",
                exit_code,
                code=act["error_code"],
                act=act["id"],
                **_new_plan(act),
            )
        return act

    def _send(self, method: str, path: str, **what: Any) -> Answer:
        with self._reached():
            response = self._client.request(method, path, **what)
        return self._read(response)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise CliError instead of httpx's errors."""
        import httpx

        try:
            yield
        except httpx.ConnectError as error:
            raise CliError(
                f"no console answers at {self._shown_url} ({_reason(error)}): start it, or set VELA_CONSOLE_URL or"
                f" --console-url{self._about_tls()}",
                code="ConsoleAway",
            ) from error
        except httpx.ConnectTimeout as error:
            raise CliError(
                f"no console answered at {self._shown_url} within {_CONNECT_S:g} s: set VELA_CONSOLE_URL or"
                f" --console-url{self._about_tls()}",
                code="ConsoleAway",
            ) from error
        except httpx.TimeoutException as error:
            raise CliError(
                f"the console at {self._shown_url} did not answer in time; try again",
                Exit.NOTHING,
                code="ConsoleTimeout",
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CliError(
                f"the request to the console at {self._shown_url} failed: {_reason(error)}{self._about_tls()}",
                code="ConsoleAway",
            ) from error

    def _about_tls(self) -> str:
        """Return what to add to an error that a wrong scheme may have caused."""
        if self._shown_url.startswith("https:"):
            return "; if it does not use TLS, its address begins with http://"
        return "; if it uses TLS, its address begins with https://"

    def _read(self, response: httpx.Response) -> Answer:
        etag = response.headers.get("ETag", "")
        if response.status_code == 304:
            return Answer(304, {}, etag)
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        body = _object(response) if kind in ("application/json", "application/problem+json") else None
        if body is None or (response.status_code >= 400 and kind != "application/problem+json"):
            raise self._not_the_console(response)
        if response.status_code >= 400:
            raise self._problem(response.status_code, body)
        return Answer(response.status_code, body, etag)

    def _not_the_console(self, response: httpx.Response) -> CliError:
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        return CliError(
            f"the server at {self._shown_url} is not Vela's console ({response.status_code}"
            f" {kind or 'without content'}): set VELA_CONSOLE_URL or --console-url to the console's port",
            code="NotTheConsole",
        )

    def _problem(self, status: int, body: JsonObject) -> CliError:
        text = _with_where_to_look(str(body.get("detail", "the console gave no reason")), status == 404)
        if status == 401:
            who = f"{self._who} was refused: " if self._who else ""
            text = f"{who}set VELA_USER and VELA_PASSWORD to a user of the console at {self._shown_url}"
            if self._keeps_token:
                text += "; your token was not sent there: put this address and its token into one profile"
        elif status == 403:
            text = f"{self._who} may not do this: {text}"
        more = {"act": body["act"]} if "act" in body else {}
        more |= _new_plan(body)
        text += _how_to_apply(body)
        if body.get("code") == "ActConflict" or (status == 409 and body.get("retriable")):
            text = f"refused: {text}"
        return CliError(text, _EXITS.get(status, Exit.FAILED), code=str(body.get("code", "")), **more)


def console_api(*, timeout_s: float | None = None) -> ConsoleApi:
    """Return the API for the current command. Asks for the password on a terminal if only the user is set."""
    asked = settings()
    typed = click.get_current_context().meta.get(_TYPED, "")
    if asked.user and not asked.password and not typed:
        if sys.stdin is None or not sys.stdin.isatty():
            raise CliError(
                f"the password of user {asked.user!r} is missing, and there is no terminal to ask for it: set"
                " VELA_PASSWORD",
                Exit.NOT_ALLOWED,
                code="NoPassword",
            )
        typed = click.get_current_context().meta[_TYPED] = _typed_password(asked)
    return ConsoleApi(replace(asked, password=asked.password or typed), timeout_s=timeout_s)


def _token_header(asked: Settings) -> dict[str, str]:
    """Return the header with the token; empty if no token is for the console, or if a user is set.

    Raises CliError if the token cannot be read or fetched.
    """
    if asked.user or not asked.for_console:
        return {}
    if asked.uses_oauth2:
        return {"Authorization": f"Bearer {_oauth2_token(asked)}"}
    token = asked.token
    if asked.token_file:
        try:
            token = Path(asked.token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise CliError(
                f"the token in {asked.token_file} cannot be read: {error}", Exit.USAGE, code="NoToken"
            ) from None
    return {"Authorization": f"Bearer {token}"} if token else {}


def _oauth2_token(asked: Settings) -> str:
    import asyncio

    from vela.aio.connections.credentials import credentials_of
    from vela.cli.client import as_cli_error, authentication_of
    from vela.errors import VelaError

    try:
        authentication = authentication_of(asked)
        assert authentication is not None
        return asyncio.run(credentials_of(authentication)).decode()
    except VelaError as error:
        raise as_cli_error(error, asked) from error


def _typed_password(asked: Settings) -> str:
    """Read the password from the terminal. Raises CliError if the user presses Ctrl-D."""
    import getpass

    try:
        return getpass.getpass(f"password of {asked.user} at {asked.console_url}: ")
    except (EOFError, KeyboardInterrupt) as error:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # so that the next output begins on a new line
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CliError(
            f"there is no password for user {asked.user!r}: type it, or set VELA_PASSWORD",
            Exit.NOT_ALLOWED,
            code="NoPassword",
        ) from error


def _with_where_to_look(text: str, is_missing: bool) -> str:
    """Add to an error about a missing object how to find the right name, or why vela cannot show the object."""
    if not is_missing:
        return text
    if "non-persistent://" in text:
        return f"{text}; non-persistent topics are not stored, so you cannot show them or act on them"
    for missing, command in _LISTS.items():
        if text.startswith(f"there is no {missing} "):
            return f"{text}: `vela {command}` lists what there is"
    return text


def _address(url: str) -> tuple[SplitResult, str]:
    """Return the console's address, and a string of it without a password. Raises CliError if it is not an address."""
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:  # an invalid port or an unclosed bracket
        address, port = SplitResult("", "", "", "", ""), None
    if address.scheme not in ("http", "https") or not address.hostname:
        raise CliError(
            f"the console's address is {without_credentials(url)!r}:"
            " set VELA_CONSOLE_URL or --console-url to http://host:port",
            Exit.USAGE,
        )
    return address, f"{address.scheme}://{address.hostname}" + (f":{port}" if port else "")


def _exit_of(act: JsonObject) -> Exit:
    """Return the exit code of an act with an error: the same as if the API had answered with that error."""
    if act["state"] in ("failed", "expired"):
        return Exit.FAILED
    return Exit.NOTHING if act["error_code"] in _NOT_THERE else Exit.REFUSED


def _object(response: httpx.Response) -> JsonObject | None:
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _reason(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _new_plan(refused: JsonObject) -> JsonObject:
    """Return the member `new_plan` of an act that was refused because it would do more than planned; else nothing."""
    return {"new_plan": refused["new_plan"]} if refused.get("new_plan") else {}


def _how_to_apply(refused: JsonObject) -> str:
    new_plan = refused.get("new_plan")
    return f": `vela acts apply {new_plan}` shows it and applies it" if new_plan else ""


def _still_waiting(act: JsonObject, wait_s: float) -> CliError:
    then = "still applies it" if act["state"] == "apply_requested" else "still plans it"
    return CliError(
        f"act {act['id']} waits: no broker answered within {wait_s:g} s. A broker that starts in time"
        f" (VELA_ACT_EXPIRY_S, 600 s) {then}; look with `vela acts show {act['id']}`",
        Exit.NOTHING,
        code="ActWaiting",
        act=act["id"],
    )


@contextmanager
def _progress_line() -> Iterator[Callable[[JsonObject], None]]:
    """Yield a function that shows the progress of an act, on a terminal only. Erase the line at the end."""
    is_shown = False

    def show(act: JsonObject) -> None:
        nonlocal is_shown
        if act["progress"] and sys.stderr.isatty():
            done = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in act["progress"].items())
            sys.stderr.write(f"{_ERASED}act {act['id']}: {done}")
            sys.stderr.flush()
            is_shown = True

    try:
        yield show
    finally:
        if is_shown:
            sys.stderr.write(_ERASED)
            sys.stderr.flush()
