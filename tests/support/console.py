"""Use the console as a person without JavaScript does: log in, fill in forms, follow redirects."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.vela import ADMIN_PASSWORD, VelaProcess

__all__ = ["Act", "ConsoleSession", "Page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page at the end of all redirects."""

    url: str
    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act, as its row has it."""

    id: int
    state: str
    plan: Mapping[str, Any]
    result: Mapping[str, Any]
    error: str


class ConsoleSession:
    """One logged-in person."""

    def __init__(self, vela: VelaProcess) -> None:
        self._vela = vela
        self._jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    @classmethod
    def logged_in(cls, vela: VelaProcess) -> ConsoleSession:
        """Log in as the admin that `make run` created."""
        session = cls(vela)
        session.get("/login")
        page = session.post("/login", {"username": "admin", "password": ADMIN_PASSWORD})
        assert "/login" not in page.url, f"the login was refused: {page.text[:500]}"
        return session

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Page:
        """Return a page, after redirects."""
        return self._open(urllib.request.Request(self._vela.console_url + path, headers=dict(headers or {})))

    @contextmanager
    def leaving(self, path: str) -> Iterator[None]:
        """Ask for a page, and close the connection at the end of the block without reading the answer."""
        port = int(self._vela.environment["VELA_CONSOLE_PORT"])
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._jar)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\n\r\n".encode()
            )
            yield

    def post(self, path: str, fields: Mapping[str, str]) -> Page:
        """Send a form with its CSRF token, as the page would."""
        token = next((cookie.value for cookie in self._jar if cookie.name == "csrftoken"), "") or ""
        data = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": token}).encode()
        request = urllib.request.Request(self._vela.console_url + path, data=data)
        request.add_header("Referer", self._vela.console_url + path)
        return self._open(request)

    def plan(self, topic: str, subscription: str, form: str, fields: Mapping[str, str]) -> Act:
        """Fill in one of the act forms (rewind, reset, skip, clear) and return the planned act."""
        path = f"/t/{topic.replace('://', '/')}/s/{subscription}/act/{form}"
        self.get(path)
        page = self.post(path, fields)
        found = re.search(r"/acts/(\d+)", page.url)
        assert found, f"no plan was made ({page.status} at {page.url}): {page.text[:2000]}"
        return self.act(int(found[1]))

    def apply(self, act: Act, *, typed_name: str = "", reason: str = "test") -> Act:
        """Press the plan's button."""
        page = self.post(f"/acts/{act.id}/apply", {"reason": reason, "confirm": typed_name})
        assert page.status == 200, f"not applied ({page.status}): {page.text[:2000]}"
        return self.act(act.id)

    def undo(self, act: Act) -> Act:
        """Press Undo and return the planned undo."""
        page = self.post(f"/acts/{act.id}/undo", {})
        found = re.search(r"/acts/(\d+)", page.url)
        assert found, f"no undo was planned: {page.text[:2000]}"
        return self.act(int(found[1]))

    def act(self, act_id: int) -> Act:
        """Read the act's row."""
        with psycopg.connect(self._vela.database_url, row_factory=dict_row) as connection:
            row = connection.execute(
                "SELECT id, state, plan, result, error FROM vela_act WHERE id = %s", (act_id,)
            ).fetchone()
        assert row is not None
        return Act(**{**row, "plan": row["plan"] or {}, "result": row["result"] or {}})

    def _open(self, request: urllib.request.Request) -> Page:
        try:
            with self._opener.open(request, timeout=30) as answer:
                return Page(url=answer.url, status=answer.status, text=answer.read().decode())
        except urllib.error.HTTPError as error:
            return Page(url=error.url or "", status=error.code, text=error.read().decode(errors="replace"))
